// The node's device classes as lvmd tells them: one stream, opened again for ever. What was told last stands while lvmd is away, and says
// after a moment that it is.
import type { ClientReadableStream } from "@grpc/grpc-js";
import type { DeviceClass, LvmdClient, WatchClassesResponse } from "../../gen/tidemark/lvmd/v1/lvmd.ts";
import { type BackOff, backOffMs } from "../../kube/queue/back-off.ts";
import type { Logger } from "../../process/log.ts";

export interface DeviceClasses {
  /** Undefined: lvmd has not been heard yet. */
  list(): readonly DeviceClass[] | undefined;
  /** Undefined: there is none of this name, or lvmd has not been heard yet. */
  get(name: string): DeviceClass | undefined;
  /** Calls back after each change of what is listed. */
  subscribe(changed: () => void): void;
}

export interface FollowedClasses extends DeviceClasses {
  stop(): void;
}

const BACK_OFF: BackOff = { baseMs: 100, capMs: 5000 };
/** The classes come at once; what has not answered by then is tried anew. */
const FIRST_ANSWER_LIMIT_MS = 10_000;
/** A restart of lvmd is over by then. */
const AWAY_AFTER_MS = 5000;

export function followClasses(client: LvmdClient, log: Logger): FollowedClasses {
  const subscribers: (() => void)[] = [];
  let classes: readonly DeviceClass[] | undefined;
  let stream: ClientReadableStream<WatchClassesResponse> | undefined;
  let failures = 0;
  let retry: NodeJS.Timeout | undefined;
  let silence: NodeJS.Timeout | undefined;
  let away: NodeJS.Timeout | undefined;
  let isAway = false;
  let stopped = false;

  const tell = (): void => {
    for (const changed of subscribers) changed();
  };
  const heard = (told: readonly DeviceClass[]): void => {
    clearTimeout(silence);
    clearTimeout(away);
    [away, isAway, failures, classes] = [undefined, false, 0, told];
    tell();
  };
  const open = (): void => {
    const opened = client.watchClasses({});
    stream = opened;
    opened.on("data", (response: WatchClassesResponse) => heard(response.classes));
    opened.on("error", (err: unknown) => again(opened, err));
    opened.on("end", () => again(opened, undefined));
    silence = setTimeout(() => again(opened, new Error("no classes were told")), FIRST_ANSWER_LIMIT_MS);
  };
  const again = (ended: typeof stream, err: unknown): void => {
    if (stopped || ended !== stream) return;
    clearTimeout(silence);
    stream = undefined;
    ended?.cancel();
    log[failures === 0 ? "warn" : "debug"]({ err }, "lvmd tells no device classes; asking it again");
    failures += 1;
    away ??= setTimeout(() => {
      isAway = true;
      tell();
    }, AWAY_AFTER_MS);
    retry = setTimeout(open, backOffMs(failures, BACK_OFF, Math.random()));
  };
  const list = (): readonly DeviceClass[] | undefined =>
    isAway ? classes?.map((deviceClass) => ({ ...deviceClass, problem: "lvmd does not answer" })) : classes;

  open();
  return {
    list,
    get: (name) => list()?.find((deviceClass) => deviceClass.name === name),
    subscribe: (changed) => subscribers.push(changed),
    stop: () => {
      stopped = true;
      for (const timer of [retry, silence, away]) clearTimeout(timer);
      stream?.cancel();
    },
  };
}
