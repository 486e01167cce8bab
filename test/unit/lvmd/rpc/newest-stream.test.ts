import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { credentials } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import {
  LvmdClient,
  LvmdService,
  type WatchClassesResponse,
} from "../../../../src/contracts/gen/tidemark/lvmd/v1/lvmd.ts";
import { createNewestStreams, type NewestStreams } from "../../../../src/lvmd/rpc/methods.ts";
import { serveOnSocket } from "../../../../src/platform/process/grpc.ts";
import { waitFor } from "../../../harness/wait-for.ts";

const CHANGES = 20_000;

describe("a stream of which the newest state counts", () => {
  let directory: string;
  let server: Awaited<ReturnType<typeof serveOnSocket>>;
  let client: LvmdClient;
  let streams: NewestStreams<WatchClassesResponse>;
  let number = 0;
  let looked = 0;

  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), "newest-"));
    number = 0;
    looked = 0;
    streams = createNewestStreams(
      () => {
        looked += 1;
        // Large ones: a message in a buffer is to be seen.
        return { classes: [{ ...CLASS, sizeBytes: number, problem: "x".repeat(10_000) }] };
      },
      (one, other) => one.classes[0]?.sizeBytes === other.classes[0]?.sizeBytes,
    );
    const socket = join(directory, "socket");
    server = await serveOnSocket(socket, [
      { definition: { watchClasses: LvmdService.watchClasses }, implementation: { watchClasses: streams.open } },
    ]);
    client = new LvmdClient(`unix://${socket}`, credentials.createInsecure());
  });

  afterEach(async () => {
    client.close();
    await server.close();
    rmSync(directory, { recursive: true });
  });

  it("begins with the present one, tells each change, and nothing twice", async () => {
    const seen: number[] = [];
    const call = client.watchClasses({}).on("error", () => undefined);
    call.on("data", ({ classes: [first] }: WatchClassesResponse) => seen.push(first?.sizeBytes ?? -1));
    await waitFor("the first", () => (seen.length === 1 ? true : undefined));
    streams.changed();
    number = 1;
    streams.changed();
    streams.changed();
    await waitFor("the second", () => (seen.length === 2 ? true : undefined));
    expect(seen).toEqual([0, 1]);
    call.cancel();
  });

  it("costs nothing for a client that never reads, which finds the newest when it does", async () => {
    const call = client.watchClasses({}).on("error", () => undefined);
    const seen: number[] = [];
    call.pause();
    await waitFor("the stream", () => (looked > 0 ? true : undefined));
    const before = process.memoryUsage();
    for (number = 1; number < CHANGES; number += 1) {
      streams.changed();
      if (number % 100 === 0) await turn();
    }
    const after = process.memoryUsage();
    // All of them would be 200 MB.
    expect(after.external + after.heapUsed - before.external - before.heapUsed).toBeLessThan(100 << 20);
    call.on("data", ({ classes: [first] }: WatchClassesResponse) => seen.push(first?.sizeBytes ?? -1));
    call.resume();
    await waitFor("the newest", () => (seen.at(-1) === CHANGES ? true : undefined));
    expect(seen.length).toBeLessThan(CHANGES / 10);
    call.cancel();
  });

  it("forgets a client that is gone", async () => {
    const call = client.watchClasses({}).on("error", () => undefined);
    await waitFor("the stream", () => (looked > 0 ? true : undefined));
    call.cancel();
    await waitFor("the stream to be forgotten", async () => {
      const before = looked;
      streams.changed();
      return looked === before ? true : undefined;
    });
  });
});

const CLASS = {
  name: "a",
  isDefault: true,
  volumeGroup: "g",
  freeBytes: 0,
  spareBytes: 0,
  sizeGrainBytes: 0,
  thinPool: undefined,
};
