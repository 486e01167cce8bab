import { describe, expect, it } from "@jest/globals";
import { createMemberSecrets } from "../../../../src/agent/member-drivers/node-calls.ts";
import { SECRETS, type Secret } from "../../../../src/contracts/kubernetes/resources.ts";
import type { KubeClient } from "../../../../src/platform/kube/client/client.ts";
import { KubeError } from "../../../../src/platform/kube/kube-error.ts";
import { servedClient } from "../../../fakes/served-client.ts";

const reference = { namespace: "storage", name: "array" };
const secret = (data: Record<string, string>): Secret => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: reference,
  data,
});

/** An API server that has one Secret, or answers in another way. */
const serving = (answer: () => Secret | undefined): KubeClient =>
  servedClient({
    get: async (resource, name) => {
      expect([resource, name]).toEqual([SECRETS, reference]);
      return answer();
    },
  });

describe("the Secrets of members' drivers", () => {
  it("are none where none is named, and nobody is asked", async () => {
    const client = serving(() => {
      throw new Error("asked");
    });
    expect(await createMemberSecrets(client).read(undefined)).toEqual({});
  });

  it("are given as the driver's own words, not as base64", async () => {
    const client = serving(() => secret({ user: "dGlkZQ==", password: "w7xiZXI=" }));
    expect(await createMemberSecrets(client).read(reference)).toEqual({ user: "tide", password: "über" });
  });

  it("are read anew each time, so that a rotated one counts at once", async () => {
    let password = "b25l";
    const secrets = createMemberSecrets(serving(() => secret({ password })));
    expect(await secrets.read(reference)).toEqual({ password: "one" });
    password = "dHdv";
    expect(await secrets.read(reference)).toEqual({ password: "two" });
  });

  it.each<[string, () => Secret | undefined, RegExp]>([
    ["there is none", () => undefined, /a Role in storage .*Secret array.*there is none/],
    [
      "the agent may not read it",
      () => {
        throw new KubeError("Forbidden", 403, "secrets is forbidden");
      },
      /a Role in storage .*Secret array.*is forbidden/,
    ],
  ])("that cannot be had say which, and what to do, where %s", async (_why, answer, message) => {
    await expect(createMemberSecrets(serving(answer)).read(reference)).rejects.toMatchObject({
      code: "MemberDriverFailed",
      message: expect.stringMatching(message),
    });
  });
});
