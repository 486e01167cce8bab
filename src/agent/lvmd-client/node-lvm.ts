// This node's LVM, through its lvmd: one connection for all that the agent asks of it, and one stream of its device
// classes, reopened without end. The last report of them stands while lvmd is away, and after a moment says that lvmd is away.

import { dirname } from "node:path";
import type { ClientReadableStream } from "@grpc/grpc-js";
import type { DeviceClass, LvmdClient, WatchClassesResponse } from "../../contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { BACK_OFFS, backOffMs } from "../../platform/process/async/back-off.ts";
import type { Effects } from "../../platform/process/effects/effects.ts";
import type { Logger } from "../../platform/process/log.ts";
import { connectLvmd, type DeviceClasses, type LvmdCalls } from "./lvmd-calls.ts";

export interface NodeLvm {
  readonly calls: LvmdCalls;
  readonly classes: DeviceClasses;
  /** Where lvmd's socket is: the same for every agent of this node, and empty after a reboot. */
  readonly socketDirectory: string;
  stop(): void;
}

export function openNodeLvm(socketPath: string, effects: Effects, log: Logger): NodeLvm {
  const connection = connectLvmd(socketPath, effects);
  const classes = followClasses(connection.client, log);
  return {
    calls: connection.calls,
    classes,
    socketDirectory: dirname(socketPath),
    stop: () => {
      classes.stop();
      connection.close();
    },
  };
}

export interface FollowedClasses extends DeviceClasses {
  stop(): void;
}

/** lvmd sends the classes at once; a stream without an answer by then is reopened. */
const FIRST_ANSWER_LIMIT_MS = 10_000;
/** A restart of lvmd is over by then. */
const AWAY_AFTER_MS = 5000;

function followClasses(client: LvmdClient, log: Logger): FollowedClasses {
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
  const heard = (reported: readonly DeviceClass[]): void => {
    clearTimeout(silence);
    clearTimeout(away);
    [away, isAway, failures, classes] = [undefined, false, 0, reported];
    tell();
  };
  const open = (): void => {
    const opened = client.watchClasses({});
    stream = opened;
    opened.on("data", (response: WatchClassesResponse) => heard(response.classes));
    opened.on("error", (err: unknown) => again(opened, err));
    opened.on("end", () => again(opened, undefined));
    silence = setTimeout(() => again(opened, new Error("lvmd sent no classes")), FIRST_ANSWER_LIMIT_MS);
  };
  const again = (ended: typeof stream, err: unknown): void => {
    if (stopped || ended !== stream) return;
    clearTimeout(silence);
    stream = undefined;
    ended?.cancel();
    log[failures === 0 ? "warn" : "debug"]({ err }, "lvmd does not report its device classes; retrying");
    failures += 1;
    away ??= setTimeout(() => {
      isAway = true;
      tell();
    }, AWAY_AFTER_MS);
    retry = setTimeout(open, backOffMs(failures, BACK_OFFS.peer, Math.random()));
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
