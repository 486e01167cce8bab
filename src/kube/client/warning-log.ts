// The API server's warnings (RFC 7234 "Warning" headers), logged once each: they come with every request that earns them.
import type { Logger } from "../../process/log.ts";

export interface WarningLog {
  hear(header: string | string[] | undefined): void;
}

/** Further warnings are not logged: a process makes few kinds of requests. */
const WARNINGS_LIMIT = 100;

export function createWarningLog(log: Logger | undefined): WarningLog {
  const heard = new Set<string>();
  return {
    hear: (header) => {
      if (header === undefined) return;
      for (const warning of [header].flat()) {
        if (heard.has(warning) || heard.size >= WARNINGS_LIMIT) continue;
        heard.add(warning);
        log?.warn({ warning }, "the API server warns");
      }
    },
  };
}
