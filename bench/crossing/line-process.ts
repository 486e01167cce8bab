// A companion process that is spoken to in lines of JSON: orders in, answers out, in order.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export interface LineProcess<Order, Answer> {
  send(order: Order): void;
  /** The next line that nobody has read yet. Rejects when the process has ended, or nothing comes in time. */
  next(limitMs: number): Promise<Answer>;
  /** Forgets lines that nobody has read. */
  forget(): void;
  end(): void;
}

/** Starts a TypeScript file beside this one. */
export function startLineProcess<Order, Answer>(fileName: string): LineProcess<Order, Answer> {
  const path = fileURLToPath(new URL(fileName, import.meta.url));
  const child = spawn(process.execPath, ["--import", "tsx", path], { stdio: ["pipe", "pipe", "inherit"] });
  const unread: Answer[] = [];
  const waiting: ((answer: Answer) => void)[] = [];
  createInterface(child.stdout).on("line", (line) => {
    const answer = JSON.parse(line) as Answer;
    const reader = waiting.shift();
    if (reader === undefined) unread.push(answer);
    else reader(answer);
  });
  return {
    send: (order) => {
      child.stdin.write(`${JSON.stringify(order)}\n`);
    },
    next: (limitMs) => {
      const [answer] = unread.splice(0, 1);
      if (answer !== undefined) return Promise.resolve(answer);
      return new Promise((resolve, reject) => {
        const reader = (line: Answer): void => {
          clearTimeout(timer);
          resolve(line);
        };
        const timer = setTimeout(() => {
          waiting.splice(waiting.indexOf(reader), 1);
          reject(new Error(`${fileName} said nothing for ${limitMs} ms`));
        }, limitMs);
        waiting.push(reader);
      });
    },
    forget: () => {
      unread.length = 0;
    },
    end: () => {
      child.stdin.end();
    },
  };
}
