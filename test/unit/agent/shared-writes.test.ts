import { describe, expect, it } from "@jest/globals";
import { createSharedWrites } from "../../../src/agent/shared-writes.ts";
import { waitFor } from "../../harness/wait-for.ts";

/** Something that is written; each write says what is known when it begins, and ends when the test lets it. */
function slowWrites() {
  const said: string[] = [];
  const ends: ((error?: Error) => void)[] = [];
  let known = "";
  let atOnce = 0;
  let mostAtOnce = 0;
  const write = async (what: string): Promise<void> => {
    said.push(what);
    atOnce += 1;
    mostAtOnce = Math.max(mostAtOnce, atOnce);
    try {
      await new Promise<void>((resolve, reject) =>
        ends.push((error) => (error === undefined ? resolve() : reject(error))),
      );
    } finally {
      atOnce -= 1;
    }
  };
  return {
    shared: createSharedWrites((handle) => write(`${handle} ${known}`)),
    write,
    said,
    mostAtOnce: () => mostAtOnce,
    learn: (what: string) => {
      known = what;
    },
    /** Once the write of this number has begun. */
    end: async (number: number, error?: Error) => {
      const end = await waitFor(`write ${number} to begin`, () => ends[number]);
      end(error);
    },
  };
}

describe("writes of one volume", () => {
  it("are one at a time: all who ask during one share the next, which says what is known by then", async () => {
    const { shared, said, mostAtOnce, learn, end } = slowWrites();
    learn("mounted");
    const first = shared.next("v0");
    const waiting = [shared.next("v0"), shared.next("v0")];
    learn("unmounted");
    await end(0);
    await first;
    await end(1);
    await Promise.all(waiting);
    expect(said).toEqual(["v0 mounted", "v0 unmounted"]);
    expect(mostAtOnce()).toBe(1);
  });

  it("go on after one that has failed, which only those hear of who asked for it", async () => {
    const { shared, said, mostAtOnce, end } = slowWrites();
    const first = shared.next("v0");
    const second = shared.next("v0");
    await Promise.all([expect(first).rejects.toThrow("no answer"), end(0, new Error("no answer"))]);
    await end(1);
    await second;
    expect([said.length, mostAtOnce()]).toEqual([2, 1]);
  });

  it("come in turn where somebody writes otherwise", async () => {
    const { shared, write, said, mostAtOnce, end } = slowWrites();
    const first = shared.next("v0");
    const other = shared.instead("v0", () => write("v0 held"));
    await end(0);
    await first;
    await end(1);
    await other;
    expect(said).toEqual(["v0 ", "v0 held"]);
    expect(mostAtOnce()).toBe(1);
  });

  it("do not wait for another volume's", async () => {
    const { shared, said, end } = slowWrites();
    const both = [shared.next("v0"), shared.next("v1")];
    await end(1);
    await end(0);
    await Promise.all(both);
    expect(said).toEqual(["v0 ", "v1 "]);
  });
});
