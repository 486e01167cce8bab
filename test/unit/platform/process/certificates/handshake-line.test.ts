// Whose handshake begins, and whose is given up for it.
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { describe, expect, it } from "@jest/globals";
import {
  createHandshakeLine,
  nextTurn,
  STUCK_AFTER_MS,
  type Turn,
  UNDER_WAY_LIMIT,
} from "../../../../../src/platform/process/certificates/handshake-line.ts";

const NOW_MS = 100_000;

type Entry = readonly [string, Turn];

/** So many of one address, the first for longest. */
const some = (count: number, address: string, ageMs = 1): Entry[] =>
  Array.from({ length: count }, (_, index) => [`${address} ${index}`, { address, sinceMs: NOW_MS - ageMs }]);
/** One each, of so many addresses. */
const each = (count: number, name: string, ageMs = 1): Entry[] =>
  Array.from({ length: count }, (_, index) => some(1, `${name}-${index}`, ageMs)).flat();
const turn = (waiting: readonly Entry[], underWay: readonly Entry[]) => nextTurn(waiting, underWay, NOW_MS);

describe("the next handshake", () => {
  it("is of whoever has waited longest, where all have as many", () => {
    expect(turn(each(3, "agent"), [])).toEqual({ begin: "agent-0 0" });
  });

  it("is nobody's where nobody waits", () => {
    expect(turn([], some(5, "stranger"))).toBeUndefined();
  });

  it("is of the address that has the fewest under way", () => {
    expect(turn([...some(5, "stranger"), ...some(5, "agent")], some(1, "stranger"))).toEqual({ begin: "agent 0" });
  });

  it("is of the address that has the fewest waiting, where as many are under way", () => {
    expect(turn([...some(900, "stranger"), ...some(1, "agent")], [])).toEqual({ begin: "agent 0" });
  });
});

describe("where as many are under way as may be", () => {
  it("the oldest of the address with the most is given up for another address", () => {
    const underWay = [...some(2, "agent"), ...some(UNDER_WAY_LIMIT - 2, "stranger")];
    expect(turn(some(1, "late"), underWay)).toEqual({ begin: "late 0", close: "stranger 0" });
  });

  it("agents that all come at once wait for each other", () => {
    expect(turn(each(500, "late"), each(UNDER_WAY_LIMIT, "agent"))).toBeUndefined();
  });

  it("an address waits for its own", () => {
    expect(turn(some(1, "stranger"), some(UNDER_WAY_LIMIT, "stranger"))).toBeUndefined();
  });

  it("one that is stuck is given up, whoever waits", () => {
    const [stuck, fresh] = [some(1, "slow", STUCK_AFTER_MS), each(UNDER_WAY_LIMIT - 1, "agent")];
    expect(turn(some(1, "late"), [...fresh, ...stuck])).toEqual({ begin: "late 0", close: "slow 0" });
  });
});

it("eight begin in one turn of the event loop, however many have spoken: decisions go on in between", async () => {
  const server = createServer({ pauseOnConnect: true });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const clients: Socket[] = [];
  const accepted: Socket[] = [];
  for (let opened = 0; opened < 24; opened += 1) {
    const connection = once(server, "connection");
    clients.push(connect(port, "127.0.0.1"));
    accepted.push(...((await connection) as [Socket]));
  }
  const turns: number[] = [];
  let begun = 0;
  await new Promise<void>((resolve) => {
    const turnEnds = (): void => {
      turns.push(begun);
      begun = 0;
      if (turns.reduce((sum, one) => sum + one) === accepted.length) resolve();
    };
    const begin = (): void => {
      if (begun === 0) setImmediate(turnEnds);
      begun += 1;
    };
    const line = createHandshakeLine({ begin, heard: () => {}, monotonicMs: () => NOW_MS });
    for (const socket of accepted) line.add(socket);
    // All at once, as after a turn that took long.
    for (const socket of accepted) socket.emit("readable");
  });
  expect(turns).toEqual([8, 8, 8]);
  for (const socket of [...clients, ...accepted]) socket.destroy();
  server.close();
});
