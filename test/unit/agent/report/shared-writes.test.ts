import { describe, expect, it } from "@jest/globals";
import { createSharedWrites } from "../../../../src/agent/report/status-reporter.ts";
import { eventually } from "../../../harness/wait-for.ts";

/** Writes that end when the test says so; what each of them knew when it began, and how many there were at once. */
function writes() {
  const [begun, ends]: [string[], ((error?: Error) => void)[]] = [[], []];
  let [known, atOnce, most] = ["nothing", 0, 0];
  const write = async (): Promise<void> => {
    begun.push(known);
    atOnce += 1;
    most = Math.max(most, atOnce);
    await new Promise<void>((resolve, reject) =>
      ends.push((error) => (error === undefined ? resolve() : reject(error))),
    ).finally(() => (atOnce -= 1));
  };
  const learn = (what: string): void => {
    known = what;
  };
  return {
    shared: createSharedWrites(write),
    write,
    begun,
    end: (index: number, error?: Error) => ends[index]?.(error),
    learn,
    most: () => most,
  };
}

describe("the writes of a volume's status", () => {
  it("are one at a time; all who ask during one share the next, which says what is known by then", async () => {
    const { shared, begun, end, learn, most } = writes();
    learn("first");
    const first = shared.next("a");
    learn("second");
    const others = [shared.next("a"), shared.next("a"), shared.next("a")];
    learn("third");
    end(0);
    await first;
    await eventually("the next one", () => begun.length === 2);
    end(1);
    await Promise.all(others);
    expect([begun, most()]).toEqual([["first", "third"], 1]);
  });

  it("of one volume wait for no other's", async () => {
    const { shared, begun, end } = writes();
    const both = [shared.next("a"), shared.next("b")];
    expect(begun).toHaveLength(2);
    end(0);
    end(1);
    await Promise.all(both);
  });

  it("go on after one that failed, whose failure is its own asker's alone", async () => {
    const { shared, begun, end } = writes();
    const failing = shared.next("a");
    const failed = expect(failing).rejects.toThrow("429");
    const next = shared.next("a");
    end(0, new Error("429"));
    await failed;
    await eventually("the next one", () => begun.length === 2);
    end(1);
    await next;
  });

  it("wait for what is written otherwise, as that waits for them", async () => {
    const { shared, write, begun, end, learn, most } = writes();
    learn("first");
    const first = shared.next("a");
    learn("held");
    const instead = shared.instead("a", write);
    end(0);
    await first;
    await eventually("the other one", () => begun.length === 2);
    const last = shared.next("a");
    learn("last");
    end(1);
    await instead;
    await eventually("the last one", () => begun.length === 3);
    end(2);
    await last;
    expect([begun, most()]).toEqual([["first", "held", "last"], 1]);
  });
});
