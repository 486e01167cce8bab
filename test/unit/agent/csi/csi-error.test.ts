import { expect, it } from "@jest/globals";
import { refusalOfError } from "../../../../src/agent/csi/csi-node.ts";
import { createKeyedQueue } from "../../../../src/platform/process/async/keyed-queue.ts";

it("has kubelet come again where too many calls wait for a volume that hangs", async () => {
  const queue = createKeyedQueue(2);
  for (const _ of [1, 2]) void queue.run("vol-1", () => new Promise(() => undefined));
  const error: unknown = await queue.run("vol-1", async () => undefined).catch((refused: unknown) => refused);
  expect(refusalOfError(error)).toMatchObject({
    code: "ABORTED",
    message: "2 calls for volume vol-1 are waiting already; see the agent's log",
  });
});

it("says nothing of an error that is not the agent's", () => {
  expect(refusalOfError(new Error("lost"))).toBeUndefined();
});
