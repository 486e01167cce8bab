// Extends that a node has carried out a moment ago: they are decided no longer, and what the node reports as free may not show them yet.
// From the one to the other they count as reserved.
import type { FilesystemLayout } from "../../api/filesystem-layout.ts";
import { classOfLayout, presentBytesOf } from "../decide/decide-node.ts";
import { nothingTaken } from "../decide/node-facts.ts";
import { nodeOfLayout } from "../gather/cluster-stores.ts";
import type { Ledger } from "./ledger.ts";
import { REPORT_DELAY_MS, SETTLING_LIMIT_MS } from "./volumes-just-made.ts";

export interface Grown {
  /** The layout was seen to change. */
  changed(before: FilesystemLayout, after: FilesystemLayout, nowMs: number): void;
  /** The node's figures were seen to change. */
  reported(nodeName: string, nowMs: number): void;
  expire(nowMs: number): void;
}

interface Growth {
  /** Its name in the ledger, which no volume has. */
  readonly name: string;
  readonly sinceMs: number;
}

export function createGrown(ledger: Pick<Ledger, "reserve">): Grown {
  const ofNodes = new Map<string, readonly Growth[]>();
  let count = 0;
  const settle = (nodeName: string, isShown: (growth: Growth) => boolean): void => {
    const growths = ofNodes.get(nodeName) ?? [];
    for (const { name } of growths.filter(isShown)) ledger.reserve(name, undefined);
    const open = growths.filter((growth) => !isShown(growth));
    if (open.length === 0) ofNodes.delete(nodeName);
    else ofNodes.set(nodeName, open);
  };
  return {
    changed: (before, after, nowMs) => {
      const nodeName = nodeOfLayout(after);
      const key = classOfLayout(after);
      const [beforeBytes, afterBytes] = [before, after].map(presentBytesOf);
      if (nodeName === undefined || nodeName !== nodeOfLayout(before) || key === undefined) return;
      // What begins to be there was reserved as a whole: see volumes-just-made.ts.
      if (beforeBytes === undefined || afterBytes === undefined || afterBytes <= beforeBytes) return;
      count += 1;
      const growth = { name: `${after.metadata.name}+${count}`, sinceMs: nowMs };
      const taken = { ...nothingTaken(), bytes: new Map([[key, afterBytes - beforeBytes]]) };
      ledger.reserve(growth.name, { nodeName, taken, isMade: true, isPromise: false });
      ofNodes.set(nodeName, [...(ofNodes.get(nodeName) ?? []), growth]);
    },
    reported: (nodeName, nowMs) => settle(nodeName, ({ sinceMs }) => nowMs >= sinceMs + REPORT_DELAY_MS),
    expire: (nowMs) => {
      for (const nodeName of [...ofNodes.keys()])
        settle(nodeName, ({ sinceMs }) => nowMs - sinceMs >= SETTLING_LIMIT_MS);
    },
  };
}
