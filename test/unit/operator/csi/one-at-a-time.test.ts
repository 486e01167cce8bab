import { describe, expect, it } from "@jest/globals";
import { Refusal } from "../../../../src/contracts/csi/refusal.ts";
import { createOneAtATime } from "../../../../src/operator/csi/csi-services.ts";

const HANDLE = "fs-11111111-2222-4333-8444-555555555555";

describe("calls for one volume", () => {
  it("are refused while another one is under way, and no others are", async () => {
    const alone = createOneAtATime();
    let end = (): void => undefined;
    const first = alone(HANDLE, () => new Promise<void>((resolve) => void (end = resolve)));
    await expect(alone(HANDLE, async () => "second")).rejects.toMatchObject({ code: "ABORTED" });
    // That one has not ended the first.
    await expect(alone(HANDLE, async () => "third")).rejects.toMatchObject({ code: "ABORTED" });
    expect(await alone("another", async () => "other")).toBe("other");
    end();
    await first;
    expect(await alone(HANDLE, async () => "fourth")).toBe("fourth");
  });

  it("are taken again after one that was refused or has failed", async () => {
    const alone = createOneAtATime();
    for (const error of [new Refusal("NOT_FOUND", "there is none"), new Error("died")])
      await expect(alone(HANDLE, () => Promise.reject(error))).rejects.toBe(error);
    expect(await alone(HANDLE, async () => "next")).toBe("next");
  });
});
