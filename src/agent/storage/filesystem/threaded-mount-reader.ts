// The mount reader over threads that can be left behind: one that works is enough, and stays open. A question goes to an idle thread; where
// another mount holds up all of them, to a new one. Two threads are never in one mount, and none is asked about a mount that hangs.
import type { Clock } from "../../../platform/process/clock.ts";
import type { Logger } from "../../../platform/process/log.ts";
import { type AbandonableThread, openAbandonableThread } from "../../../platform/process/threads/abandonable-thread.ts";
import { StorageError } from "../storage-error.ts";
import type {
  AskedMount,
  FilesystemReading,
  FromMountThread,
  MountReader,
  OpenMount,
  ToMountThread,
} from "./mount-reader.ts";

export interface ThreadedMountReader extends MountReader {
  /** Threads that hang in the kernel. The process cannot exit with one; it can only be killed. */
  strandedThreads(): number;
  /** Undefined when it works. */
  unhealthy(): string | undefined;
  /** Rejects what is not answered yet. */
  stop(): Promise<void>;
}

export interface MountReaderParts {
  /** The bundled thread. */
  readonly workerPath: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A read takes microseconds, and milliseconds on a machine that has no time. */
const MOUNT_HUNG_AFTER_MS = 2000;
const LOOK_INTERVAL_MS = 250;
/** So long a question waits behind another mount's, which may hang, before a thread is opened for it: that takes about as long. */
const PATIENCE_MS = 20;
const WORKING_THREADS_MAX = 8;
/** And one more. Each holds a few MiB for as long as its filesystem hangs. */
const STRANDED_THREADS_MAX = 32;

type Question = Exclude<ToMountThread, { readonly type: "close" }>;

interface Asked {
  readonly question: Question;
  readonly askedMs: number;
  readonly resolve: (message: FromMountThread) => void;
  readonly reject: (error: StorageError) => void;
  sentMs: number;
}

interface WorkingThread {
  readonly thread: AbandonableThread<ToMountThread>;
  /** Numbers of mounts that it may have open. */
  readonly opened: Set<number>;
  asked: Asked | undefined;
}

interface Pool extends MountReaderParts {
  readonly working: Set<WorkingThread>;
  /** In the order in which they were asked. */
  readonly waiting: Set<Asked>;
  /** Paths of mounts that a thread left behind is in. */
  readonly hung: Set<string>;
  stranded: number;
  stopped: boolean;
  look: NodeJS.Timeout | undefined;
  patience: NodeJS.Timeout | undefined;
}

export function createThreadedMountReader(parts: MountReaderParts): ThreadedMountReader {
  const pool: Pool = {
    ...{ ...parts, working: new Set(), waiting: new Set(), hung: new Set() },
    ...{ stranded: 0, stopped: false, look: undefined, patience: undefined },
  };
  let lastNumber = 0;
  // An extend is not to wait for its start.
  openThread(pool).thread.hold(false);
  return {
    open: async ({ mountPath, fsType, fsid }) => {
      lastNumber += 1;
      const mount = { number: lastNumber, mountPath, fsType, fsid, deviceNumber: undefined };
      const said = await ask(pool, { type: "open", mount });
      if (said.type !== "opened") throw new Error(`bug: a mount that was opened is answered as ${said.type}`);
      return openMount(pool, { ...mount, deviceNumber: said.deviceNumber }, said.reading);
    },
    strandedThreads: () => pool.stranded,
    unhealthy: () =>
      pool.working.size > 0 || mayOpen(pool)
        ? undefined
        : `filesystems are no longer read: ${pool.stranded} threads hang on some that do not answer`,
    stop: () => stop(pool),
  };
}

function openMount(pool: Pool, mount: AskedMount, first: FilesystemReading): OpenMount {
  let isOpen = true;
  let unanswered = 0;
  // A reading that is still waiting for a thread would open it there once more.
  const closeUnused = (): void => {
    if (isOpen || unanswered > 0) return;
    for (const { thread, opened } of pool.working)
      if (opened.delete(mount.number)) thread.post({ type: "close", number: mount.number });
  };
  return {
    first,
    read: async (): Promise<FilesystemReading> => {
      if (!isOpen) throw new Error(`bug: a reading of ${mount.mountPath} after it was closed`);
      unanswered += 1;
      try {
        const said = await ask(pool, { type: "read", mount });
        if (said.type !== "reading") throw new Error(`bug: a mount that was read is answered as ${said.type}`);
        return said.reading;
      } finally {
        unanswered -= 1;
        closeUnused();
      }
    },
    close: () => {
      isOpen = false;
      closeUnused();
    },
  };
}

function ask(pool: Pool, question: Question): Promise<FromMountThread> {
  const { mountPath } = question.mount;
  return new Promise((resolve, reject) => {
    if (pool.stopped) reject(stopError(mountPath));
    else if (pool.hung.has(mountPath)) reject(hungError(mountPath));
    else {
      pool.waiting.add({ question, askedMs: pool.clock.monotonicMs(), resolve, reject, sentMs: 0 });
      sendWaiting(pool);
    }
  });
}

function sendWaiting(pool: Pool): void {
  for (const asked of pool.waiting) {
    const { mountPath } = asked.question.mount;
    const at = [...pool.working].some((each) => each.asked?.question.mount.mountPath === mountPath);
    const working = at ? undefined : (idleThread(pool) ?? threadFor(pool, asked));
    if (working !== undefined) send(pool, working, asked);
    else if (pool.working.size === 0) refuse(pool, asked, tooManyError(mountPath));
  }
  if (pool.waiting.size === 0) return;
  pool.patience ??= setTimeout(() => {
    pool.patience = undefined;
    sendWaiting(pool);
  }, PATIENCE_MS);
}

function idleThread({ working }: Pool): WorkingThread | undefined {
  return [...working].find(({ asked }) => asked === undefined);
}

/** A new one, where it is due. */
function threadFor(pool: Pool, { askedMs }: Asked): WorkingThread | undefined {
  const isDue = pool.working.size === 0 || pool.clock.monotonicMs() - askedMs >= PATIENCE_MS;
  return isDue && mayOpen(pool) ? openThread(pool) : undefined;
}

/** Each that works may hang, too. */
function mayOpen({ working, stranded }: Pool): boolean {
  return working.size < WORKING_THREADS_MAX && stranded + working.size <= STRANDED_THREADS_MAX;
}

function openThread(pool: Pool): WorkingThread {
  const thread = openAbandonableThread<ToMountThread, FromMountThread>({
    ...{ workerPath: pool.workerPath, hungAfterMs: MOUNT_HUNG_AFTER_MS, clock: pool.clock, log: pool.log },
    received: (message) => receive(pool, working, message),
    died: () => {
      pool.working.delete(working);
      const { asked } = working;
      if (asked === undefined) return;
      const path = asked.question.mount.mountPath;
      asked.reject(new StorageError("CommandFailed", `the thread that read ${path} has ended; see the agent's log`));
      sendWaiting(pool);
    },
  });
  const working: WorkingThread = { thread, opened: new Set(), asked: undefined };
  pool.working.add(working);
  return working;
}

function send(pool: Pool, working: WorkingThread, asked: Asked): void {
  pool.waiting.delete(asked);
  asked.sentMs = pool.clock.monotonicMs();
  working.asked = asked;
  working.opened.add(asked.question.mount.number);
  working.thread.hold(true);
  working.thread.post(asked.question);
  pool.look ??= setTimeout(() => lookAfterAll(pool), LOOK_INTERVAL_MS).unref();
}

function receive(pool: Pool, working: WorkingThread, message: FromMountThread): void {
  const { asked } = working;
  if (asked === undefined) return;
  working.asked = undefined;
  const { type, mount } = asked.question;
  if (message.type === "failed") {
    if (type === "open") working.opened.delete(mount.number);
    asked.reject(new StorageError("CommandFailed", `reading ${mount.mountPath}: ${message.message}`));
  } else asked.resolve(message);
  sendWaiting(pool);
  if (working.asked !== undefined) return;
  working.thread.hold(false);
  if ([...pool.working].some((each) => each !== working && each.asked === undefined)) retire(pool, working);
}

/** One idle thread is enough. */
function retire(pool: Pool, working: WorkingThread): void {
  pool.working.delete(working);
  void working.thread.end();
}

/** Goes on for as long as a question is not answered. */
function lookAfterAll(pool: Pool): void {
  pool.look = undefined;
  for (const working of pool.working)
    if (working.asked !== undefined && working.thread.isStuck(working.asked.sentMs))
      leaveBehind(pool, working, working.asked);
  const isAtWork = [...pool.working].some(({ asked }) => asked !== undefined);
  if (isAtWork) pool.look ??= setTimeout(() => lookAfterAll(pool), LOOK_INTERVAL_MS).unref();
}

function leaveBehind(pool: Pool, working: WorkingThread, asked: Asked): void {
  const { mountPath } = asked.question.mount;
  // Stuck in no place it says nothing about the mount.
  const isHung = working.thread.place() > 0;
  pool.working.delete(working);
  pool.stranded += 1;
  if (isHung) setHung(pool, mountPath, true);
  working.thread.leave(() => {
    pool.stranded -= 1;
    if (isHung) setHung(pool, mountPath, false);
  });
  asked.reject(hungError(mountPath));
  for (const each of pool.waiting)
    if (isHung && each.question.mount.mountPath === mountPath) refuse(pool, each, hungError(mountPath));
  sendWaiting(pool);
}

function setHung({ hung, log }: Pool, mountPath: string, isHung: boolean): void {
  if (isHung) hung.add(mountPath);
  else hung.delete(mountPath);
  log[isHung ? "error" : "info"](
    { mountPath },
    isHung ? "the filesystem does not answer an operation; it is not asked again" : "the filesystem answers again",
  );
}

function refuse(pool: Pool, asked: Asked, error: StorageError): void {
  pool.waiting.delete(asked);
  asked.reject(error);
}

async function stop(pool: Pool): Promise<void> {
  pool.stopped = true;
  clearTimeout(pool.look);
  clearTimeout(pool.patience);
  for (const asked of pool.waiting) refuse(pool, asked, stopError(asked.question.mount.mountPath));
  const idle = [...pool.working].filter(({ asked }) => asked === undefined);
  for (const { thread, asked } of pool.working) {
    if (asked === undefined) continue;
    // It may never end.
    pool.stranded += 1;
    thread.leave(() => {
      pool.stranded -= 1;
    });
    asked.reject(stopError(asked.question.mount.mountPath));
  }
  pool.working.clear();
  await Promise.all(idle.map(({ thread }) => thread.end()));
}

function hungError(mountPath: string): StorageError {
  return new StorageError(
    "Hung",
    `${mountPath} does not answer after ${MOUNT_HUNG_AFTER_MS} ms; see dmesg on the node`,
  );
}

function tooManyError(mountPath: string): StorageError {
  return new StorageError(
    "Hung",
    `${mountPath} is not read: more than ${STRANDED_THREADS_MAX} threads hang on other filesystems; see dmesg on the node`,
  );
}

function stopError(mountPath: string): StorageError {
  return new StorageError("CommandFailed", `${mountPath} is not read: the agent stops`);
}
