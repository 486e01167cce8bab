// lvmd's two services in the test's own process, over fake LVM: what it keeps are lvmd's promises to the agent (whole grains, tokens,
// idempotence). What it is told to refuse it refuses, and where it is told to keep silent nobody hears the answer.
import { join } from "node:path";
import { type handleUnaryCall, type ServerWritableStream, status } from "@grpc/grpc-js";
import {
  type DeviceClass,
  type LvmdServer,
  LvmdService,
  CancelReduceResponse_Outcome as Outcome,
  type Volume,
  type WatchClassesResponse,
} from "../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import {
  type LogicalVolume,
  type LVServiceServer,
  LVServiceService,
  type VGServiceServer,
  VGServiceService,
} from "../../src/contracts/gen/topolvm/lvmd.ts";
import { serveOnSocket } from "../../src/platform/process/grpc.ts";
import { createFakeLvm, type FakeLvm, Refused } from "./fake-lvm.ts";

interface Switches {
  /** "Method name", in order; of ReduceLV and CancelReduce the token. */
  readonly calls: string[];
  /** While a method is in it, its calls are refused with this. */
  readonly refusals: Map<string, { code: status; details: string }>;
  /** Methods that do what they are asked for, and are not heard. */
  readonly silent: Set<string>;
  /** While a method is in it, this is awaited before anything is done about a call of it. */
  readonly before: Map<string, () => Promise<void>>;
}

export interface FakeLvmd extends Switches {
  readonly socketPath: string;
  readonly lvm: FakeLvm;
  /** Undefined takes the class away. */
  setClass(name: string, change: Partial<DeviceClass> | undefined): void;
  /** The socket goes, and comes again; volumes stay. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

export async function startFakeLvmd(directory: string): Promise<FakeLvmd> {
  const socketPath = join(directory, "lvmd.sock");
  const lvm = createFakeLvm(join(directory, "volumes"));
  const switches: Switches = { calls: [], refusals: new Map(), silent: new Set(), before: new Map() };
  const watchers = new Set<ServerWritableStream<unknown, WatchClassesResponse>>();
  const tellClasses = (): void => {
    for (const watcher of watchers) watcher.write({ classes: lvm.classes() });
  };
  const services = servicesOf(lvm, switches, watchers, tellClasses);
  let server: { close(): Promise<void> } | undefined;
  const start = async (): Promise<void> => {
    server = await serveOnSocket(socketPath, services);
  };
  await start();
  return {
    ...switches,
    socketPath,
    lvm,
    setClass: (name, change) => {
      lvm.setClass(name, change);
      tellClasses();
    },
    start,
    stop: async () => {
      for (const watcher of watchers) watcher.end();
      watchers.clear();
      await server?.close();
    },
  };
}

function servicesOf(
  lvm: FakeLvm,
  { calls, refusals, silent, before }: Switches,
  watchers: Set<ServerWritableStream<unknown, WatchClassesResponse>>,
  tellClasses: () => void,
) {
  const serve =
    <Request, Response>(
      method: string,
      about: keyof Request,
      act: (request: Request) => Promise<Response> | Response,
    ): handleUnaryCall<Request, Response> =>
    async ({ request }, callback) => {
      calls.push(`${method} ${String(request[about])}`);
      await before.get(method)?.();
      try {
        const refusal = refusals.get(method);
        if (refusal !== undefined) return callback(refusal);
        const answer = await act(request);
        tellClasses();
        if (silent.has(method)) callback({ code: status.UNAVAILABLE, details: "nobody hears it" });
        else callback(null, answer);
      } catch (error) {
        const code = error instanceof Refused ? error.code : status.INTERNAL;
        callback({ code, details: error instanceof Error ? error.message : String(error) });
      }
    };
  const notHere = (): never => {
    throw new Refused(status.UNIMPLEMENTED, "the agent never calls it");
  };
  const volumeService: LVServiceServer = {
    createLv: serve("CreateLV", "name", async ({ deviceClass, name, sizeBytes, tags }) => ({
      volume: wireVolume(await lvm.make(deviceClass, name, sizeBytes, tags)),
    })),
    removeLv: serve("RemoveLV", "name", notHere),
    resizeLv: serve("ResizeLV", "name", async ({ deviceClass, name, sizeBytes }) => ({
      sizeBytes: await lvm.grow(lvm.volumeOf(deviceClass, name), sizeBytes),
    })),
    createLvSnapshot: serve(
      "CreateLVSnapshot",
      "name",
      async ({ deviceClass, name, sourceVolume, sizeBytes, tags }) => {
        const source = lvm.volumeOf(deviceClass, sourceVolume);
        if (!source.thin)
          throw new Refused(status.UNIMPLEMENTED, "device class is not thin. Thick snapshots are not implemented yet");
        const wantedBytes = sizeBytes === 0 ? source.sizeBytes : sizeBytes;
        if (wantedBytes < source.sizeBytes) throw new Refused(status.OUT_OF_RANGE, "smaller than its source");
        const made = await lvm.make(deviceClass, name, wantedBytes, tags);
        await lvm.copy(source, made);
        return { snapshot: wireVolume(made) };
      },
    ),
  };
  const groupService: VGServiceServer = {
    getLvList: serve("GetLVList", "deviceClass", ({ deviceClass }) => {
      const { name } = lvm.classOf(deviceClass);
      return {
        volumes: lvm
          .volumes()
          .filter((volume) => volume.deviceClass === name)
          .map(wireVolume),
      };
    }),
    getFreeBytes: serve("GetFreeBytes", "deviceClass", notHere),
    watch: (call) => call.end(),
  };
  const lvmdService: LvmdServer = {
    getVolume: serve("GetVolume", "name", ({ deviceClass, name }) => lvm.volumeOf(deviceClass, name)),
    reduceLv: serve("ReduceLV", "token", async (request) => ({ sizeBytes: await lvm.reduce(request) })),
    cancelReduce: serve("CancelReduce", "token", ({ token }) => {
      const sizeBytes = lvm.burn(token);
      return sizeBytes === undefined
        ? { outcome: Outcome.BURNT, sizeBytes: 0 }
        : { outcome: Outcome.REDUCED, sizeBytes };
    }),
    extendThinPool: serve("ExtendThinPool", "deviceClass", notHere),
    wipeAndRemoveLv: serve("WipeAndRemoveLV", "name", async ({ name }) => {
      await lvm.remove(name);
      return {};
    }),
    activateLv: serve("ActivateLV", "name", async ({ deviceClass, name }) => {
      await lvm.setActive(name, true);
      return lvm.volumeOf(deviceClass, name);
    }),
    mergeSnapshot: serve("MergeSnapshot", "name", async ({ deviceClass, name, snapshot }) => {
      await lvm.merge(lvm.volumeOf(deviceClass, name), snapshot);
      return lvm.volumeOf(deviceClass, name);
    }),
    renameLv: serve("RenameLV", "name", notHere),
    changeTags: serve("ChangeTags", "name", ({ deviceClass, name, add, remove }) => {
      const { tags } = lvm.volumeOf(deviceClass, name);
      lvm.retag(
        lvm.volumeOf(deviceClass, name),
        [...new Set([...tags, ...add])].filter((tag) => !remove.includes(tag)),
      );
      return lvm.volumeOf(deviceClass, name);
    }),
    watchClasses: (call) => {
      watchers.add(call);
      call.on("cancelled", () => watchers.delete(call));
      call.write({ classes: lvm.classes() });
    },
  };
  return [
    { definition: LVServiceService, implementation: volumeService },
    { definition: VGServiceService, implementation: groupService },
    { definition: LvmdService, implementation: lvmdService },
  ];
}

function wireVolume({ name, devMajor, devMinor, tags, sizeBytes, path, attr }: Volume): LogicalVolume {
  return { name, devMajor, devMinor, tags, sizeBytes, path, attr };
}
