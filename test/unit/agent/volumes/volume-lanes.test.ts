import { describe, expect, it } from "@jest/globals";
import { createVolumeLanes, LaneFullError } from "../../../../src/agent/volumes/volume-lanes.ts";

describe("a volume's lane", () => {
  it("runs one thing at a time, in order, also after one that failed", async () => {
    const lanes = createVolumeLanes();
    const order: string[] = [];
    const first = lanes.run("a", async () => {
      order.push("first begins");
      await new Promise((resolve) => setTimeout(resolve, 5));
      order.push("first ends");
      throw new Error("no");
    });
    const second = lanes.run("a", async () => order.push("second"));
    await expect(first).rejects.toThrow("no");
    await second;
    expect(order).toEqual(["first begins", "first ends", "second"]);
  });

  it("never waits for another volume", async () => {
    const lanes = createVolumeLanes();
    void lanes.run("hung", () => new Promise(() => {}));
    await expect(lanes.run("well", async () => "done")).resolves.toBe("done");
  });

  it("refuses callers when too many wait for a volume that hangs", async () => {
    const lanes = createVolumeLanes();
    for (let callers = 0; callers < 8; callers += 1) void lanes.run("hung", () => new Promise(() => {}));
    await expect(lanes.run("hung", async () => "never")).rejects.toThrow(LaneFullError);
  });
});
