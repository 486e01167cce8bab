import { expect, it } from "@jest/globals";
import { createTurns } from "../../../src/operator/member/turns.ts";

it("gives a name's turns one after the other, also after one that failed, and those of another name at once", async () => {
  const turns = createTurns();
  const said: string[] = [];
  let letGo = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const first = turns.take("shop", async () => {
    await held;
    said.push("first");
    throw new Error("no");
  });
  const second = turns.take("shop", async () => said.push("second"));
  await turns.take("bank", async () => said.push("another"));
  letGo();
  await expect(first).rejects.toThrow("no");
  await second;
  expect(said).toEqual(["another", "first", "second"]);
});
