// What a wait in vain says: whoever reads it sees no machine, only this sentence.
import { describe, expect, it } from "@jest/globals";
import { eventually, untilRead, waitFor } from "../../harness/wait-for.ts";

const SHORT = { limitMs: 30 };
const IN_VAIN = "waited 30 ms in vain for a volume";

describe("a wait in vain", () => {
  it("says what did not come, and what there was instead", async () => {
    const wait = waitFor("a volume", () => undefined, { ...SHORT, otherwise: () => "there are none" });
    await expect(wait).rejects.toThrow(`${IN_VAIN}; there are none`);
    await expect(eventually("a volume", () => false, SHORT)).rejects.toThrow(IN_VAIN);
  });

  it("says what was seen last", async () => {
    let looks = 0;
    const read = () => ({ looks: ++looks, phase: "Pending" });
    await expect(untilRead("a volume", read, () => false, SHORT)).rejects.toThrow(
      new RegExp(`^${IN_VAIN}; last seen: \\{"looks":\\d+,"phase":"Pending"\\}$`),
    );
    expect(looks).toBeGreaterThan(1);
  });

  it("says how the last look has failed, and nothing of one that has failed before", async () => {
    const cause = new Error("no answer");
    await expect(waitFor("a volume", () => Promise.reject(cause), SHORT)).rejects.toMatchObject({
      message: `${IN_VAIN}; the last look failed: Error: no answer`,
      cause,
    });
    let looks = 0;
    const look = (): undefined => {
      if (++looks === 1) throw cause;
    };
    await expect(waitFor("a volume", look, SHORT)).rejects.toMatchObject({ message: IN_VAIN, cause: undefined });
  });
});

describe("a wait", () => {
  it("ends with the first value, whatever failed before", async () => {
    let looks = 0;
    const look = (): number | undefined => {
      looks += 1;
      if (looks === 1) throw new Error("no answer yet");
      return looks < 3 ? undefined : looks;
    };
    expect(await waitFor("the third look", look)).toBe(3);
  });
});
