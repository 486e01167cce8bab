// What a process serves for Prometheus, as of now: a page may be a second old.
import { setTimeout as sleep } from "node:timers/promises";

const PAGE_AGE_MS = 1100;

export async function freshMetrics(url: string): Promise<string> {
  await sleep(PAGE_AGE_MS);
  return (await fetch(url)).text();
}
