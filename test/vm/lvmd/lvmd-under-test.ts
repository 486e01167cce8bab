// An lvmd of its own for a suite inside the virtual machine, on volume groups made from its disks; and clients of all its services.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { HealthClient } from "../../../src/contracts/gen/grpc/health/v1/health.ts";
import {
  type CancelReduceResponse,
  type ExtendThinPoolResponse,
  LvmdClient,
  type ReduceLVResponse,
  type Volume,
  type WipeAndRemoveLVResponse,
} from "../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import {
  type CreateLVResponse,
  type CreateLVSnapshotResponse,
  type Empty,
  type GetFreeBytesResponse,
  type GetLVListResponse,
  LVServiceClient,
  type ResizeLVResponse,
  VGServiceClient,
} from "../../../src/contracts/gen/topolvm/lvmd.ts";
import { readConfig } from "../../../src/lvmd/config.ts";
import { startLvmd } from "../../../src/lvmd/start-lvmd.ts";
import { createLogger } from "../../../src/platform/process/log.ts";
import type { Stoppable } from "../../../src/platform/process/shutdown.ts";

export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

export interface LvmdClients {
  readonly volumes: LVServiceClient;
  readonly groups: VGServiceClient;
  readonly lvmd: LvmdClient;
  readonly health: HealthClient;
  close(): void;
}

export function connect(socket: string): LvmdClients {
  const of = <T extends Client>(Kind: new (address: string, credentials: ReturnType<typeof insecure>) => T): T =>
    new Kind(`unix://${socket}`, insecure());
  const clients = {
    volumes: of(LVServiceClient),
    groups: of(VGServiceClient),
    lvmd: of(LvmdClient),
    health: of(HealthClient),
  };
  return {
    ...clients,
    close: () => {
      for (const client of Object.values(clients)) client.close();
    },
  };
}

const insecure = (): ReturnType<typeof credentials.createInsecure> => credentials.createInsecure();

/** One call; a refusal is thrown as grpc-js' ServiceError. */
function call<Response>(
  begin: (callback: (error: ServiceError | null, response: Response) => void) => unknown,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    begin((error, response) => (error === null ? resolve(response) : reject(error)));
  });
}

export interface LvmdUnderTest extends LvmdClients {
  readonly directory: string;
  readonly settingsFile: string;
  readonly recorder: LvmRecorder;
  stop(): Promise<void>;
}

/** Settings are classes as YAML; socket and prefix are added. */
export async function startLvmdUnderTest(classes: string, flags: readonly string[] = []): Promise<LvmdUnderTest> {
  const directory = mkdtempSync(join(tmpdir(), "lvmd-"));
  const recorder = createRecorder(directory);
  const { socket, settingsFile, args } = writeSettings(directory, recorder, classes, flags);
  const parts: Stoppable[] = await startLvmd(readConfig(args, {}), createLogger("lvmd", "silent"));
  const clients = connect(socket);
  return {
    ...clients,
    directory,
    settingsFile,
    recorder,
    stop: async () => {
      clients.close();
      for (const { stop } of [...parts].reverse()) await stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** What an lvmd in this directory is started with. */
export function writeSettings(
  directory: string,
  recorder: Pick<LvmRecorder, "program">,
  classes: string,
  flags: readonly string[] = [],
): { readonly socket: string; readonly settingsFile: string; readonly args: string[] } {
  const socket = join(directory, "s", "lvmd.sock");
  const settingsFile = join(directory, "lvmd.yaml");
  writeFileSync(settingsFile, `socket-name: ${socket}\nlvm-command-prefix: [${recorder.program}]\n${classes}`);
  const state = ["--state-directory", join(directory, "state")];
  return {
    socket,
    settingsFile,
    args: ["--config", settingsFile, ...state, "--http-host", "127.0.0.1", "--http-port", "0", ...flags],
  };
}

/** A program that stands before LVM: it writes down what it is given, and can be told to make trouble. */
export interface LvmRecorder {
  readonly program: string;
  /** What was given since the last call, without lvmd's own --config and without reports. */
  taken(): string[][];
  /** How many commands were begun since the last call, reports among them. */
  begun(): number;
  /** Lines of shell that run in LVM's place before it ("$@" is what it is given); "" ends the trouble. */
  before(subcommand: string, script: string): void;
}

export function createRecorder(directory: string): LvmRecorder {
  const program = join(directory, "lvm");
  const log = join(directory, "lvm.log");
  const script = `#!/bin/bash
{ printf '%s\\x1f' "$@"; printf '\\n'; } >>${log}
[ ! -e ${directory}/before-$1 ] || . ${directory}/before-$1
LVM_SUPPRESS_FD_WARNINGS=1 exec /sbin/lvm "$@"
`;
  writeFileSync(program, script, { mode: 0o755 });
  writeFileSync(log, "");
  let seenTaken = 0;
  let seenBegun = 0;
  const lines = (): string[][] =>
    readFileSync(log, "utf8")
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split("\x1f").slice(0, -1));
  return {
    program,
    taken: () => {
      const all = lines();
      const since = all.slice(seenTaken);
      seenTaken = all.length;
      return since
        .filter(([subcommand]) => subcommand !== "fullreport" && subcommand !== "version")
        .map(([subcommand = "", flag, config, ...args]) => {
          if (flag !== "--config" || config !== "backup { backup=1 archive=0 }")
            throw new Error("no --config of lvmd's own");
          return [subcommand, ...args];
        });
    },
    begun: () => {
      const all = lines();
      const count = all.length - seenBegun;
      seenBegun = all.length;
      return count;
    },
    before: (subcommand, lines) => {
      const path = join(directory, `before-${subcommand}`);
      if (lines === "") rmSync(path, { force: true });
      else writeFileSync(path, `${lines}\n`);
    },
  };
}

/** Stands before the program that zeroes, and can keep it waiting, as a slow disk would. */
export interface ZeroingGate {
  /** From now on pieces are counted anew; the `from`-th and all after it wait. */
  hold(from: number): void;
  open(): void;
  /** Of those that were begun since the last `hold`, offsets and lengths in MiB; the last one may be waiting. */
  pieces(): [offset: number, length: number][];
}

const ZEROING = "/usr/sbin/blkdiscard";

/** Once for each machine: it stays for as long as that. */
export function createZeroingGate(): ZeroingGate {
  const directory = mkdtempSync(join(tmpdir(), "gate-"));
  const [gate, log] = [join(directory, "gate"), join(directory, "log")];
  const script = `#!/bin/bash
echo "$*" >>${log}
number=$(wc -l <${log})
while [ -e ${gate} ] && [ "$number" -ge "$(<${gate})" ]; do sleep 0.05; done
exec -a ${ZEROING} ${directory}/real "$@"
`;
  writeFileSync(join(directory, "program"), script, { mode: 0o755 });
  writeFileSync(log, "");
  sh(`cp ${ZEROING} ${directory}/real; mount --bind ${directory}/program ${ZEROING}`);
  return {
    hold: (from) => {
      writeFileSync(log, "");
      writeFileSync(gate, String(from));
    },
    open: () => rmSync(gate, { force: true }),
    pieces: () =>
      [...readFileSync(log, "utf8").matchAll(/--offset (\d+) --length (\d+)/g)].map(([, offset, length]) => [
        Number(offset) / MIB,
        Number(length) / MIB,
      ]),
  };
}

/** A command of the guest; its output. */
export function sh(script: string): string {
  return execFileSync("/bin/bash", ["-ec", script], {
    encoding: "utf8",
    env: { ...process.env, LVM_SUPPRESS_FD_WARNINGS: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

/** What a call was refused with. */
export async function refusalOf(answer: Promise<unknown>): Promise<{ code: string; message: string }> {
  try {
    const value = await answer;
    return { code: "OK", message: JSON.stringify(value) };
  } catch (error) {
    const { code, details } = error as ServiceError;
    return { code: status[code] ?? String(code), message: details };
  }
}

/** Of several calls at once. */
export function refusalsOf(answers: readonly Promise<unknown>[]): Promise<{ code: string; message: string }[]> {
  return Promise.all(answers.map(refusalOf));
}

/** The calls that suites make over and over. */
export function callsOf({ volumes, groups, lvmd }: LvmdClients) {
  return {
    create: (name: string, sizeBytes: number, deviceClass = "", more: { tags?: string[]; optionClass?: string } = {}) =>
      call<CreateLVResponse>((done) =>
        volumes.createLv(
          {
            name,
            sizeBytes,
            deviceClass,
            tags: more.tags ?? [],
            lvcreateOptionClass: more.optionClass ?? "",
          },
          done,
        ),
      ),
    remove: (name: string, deviceClass = "") => call<Empty>((done) => volumes.removeLv({ name, deviceClass }, done)),
    resize: (name: string, sizeBytes: number, deviceClass = "") =>
      call<ResizeLVResponse>((done) => volumes.resizeLv({ name, sizeBytes, deviceClass }, done)),
    snapshot: (name: string, sourceVolume: string, accessType: string, sizeBytes: number, deviceClass: string) =>
      call<CreateLVSnapshotResponse>((done) =>
        volumes.createLvSnapshot(
          {
            name,
            sourceVolume,
            accessType,
            sizeBytes,
            deviceClass,
            tags: ["of=snapshot"],
          },
          done,
        ),
      ),
    list: async (deviceClass = "") =>
      (await call<GetLVListResponse>((done) => groups.getLvList({ deviceClass }, done))).volumes,
    free: async (deviceClass = "") =>
      (await call<GetFreeBytesResponse>((done) => groups.getFreeBytes({ deviceClass }, done))).freeBytes,
    get: (name: string, deviceClass = "") => call<Volume>((done) => lvmd.getVolume({ name, deviceClass }, done)),
    reduce: async (lvUuid: string, fromBytes: number, toBytes: number, token: string) =>
      (await call<ReduceLVResponse>((done) => lvmd.reduceLv({ lvUuid, fromBytes, toBytes, token }, done))).sizeBytes,
    cancel: (token: string) => call<CancelReduceResponse>((done) => lvmd.cancelReduce({ token }, done)),
    wipe: (name: string, deviceClass = "") =>
      call<WipeAndRemoveLVResponse>((done) => lvmd.wipeAndRemoveLv({ name, deviceClass }, done)),
    activate: (name: string, deviceClass = "") => call<Volume>((done) => lvmd.activateLv({ name, deviceClass }, done)),
    merge: (name: string, snapshot: string, deviceClass = "") =>
      call<Volume>((done) => lvmd.mergeSnapshot({ name, snapshot, deviceClass }, done)),
    rename: (name: string, newName: string, deviceClass = "") =>
      call<Volume>((done) => lvmd.renameLv({ name, newName, deviceClass }, done)),
    tag: (name: string, add: string[], remove: string[], deviceClass = "") =>
      call<Volume>((done) => lvmd.changeTags({ name, add, remove, deviceClass }, done)),
    extendPool: (deviceClass: string, sizeBytes: number, metadataSizeBytes: number) =>
      call<ExtendThinPoolResponse>((done) => lvmd.extendThinPool({ deviceClass, sizeBytes, metadataSizeBytes }, done)),
  };
}
