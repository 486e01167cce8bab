// Where the CSI drivers of a node listen, asked of their registration sockets: real gRPC on real sockets, no disks.
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { createRegisteredDrivers, type RegisteredDrivers } from "../../../src/agent/member-drivers/node-calls.ts";
import { RegistrationService } from "../../../src/contracts/gen/pluginregistration/v1/registration.ts";
import { serveOnSocket } from "../../../src/platform/process/grpc.ts";

describe("the CSI drivers that are registered on a node", () => {
  let directory: string;
  let drivers: RegisteredDrivers;
  let closing: (() => Promise<void>)[];

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-registry-"));
    drivers = createRegisteredDrivers(directory);
    closing = [];
  });
  afterEach(async () => {
    for (const close of closing) await close();
    rmSync(directory, { recursive: true });
  });

  /** Returns how many times it was asked, and how it ends. */
  async function register(file: string, name: string, endpoint: string, type = "CSIPlugin") {
    const asked = { times: 0 };
    const server = await serveOnSocket(join(directory, file), [
      {
        definition: RegistrationService,
        implementation: {
          getInfo: (_call: unknown, callback: (error: null, info: object) => void) => {
            asked.times += 1;
            callback(null, { type, name, endpoint, supportedVersions: ["1.0.0"] });
          },
          notifyRegistrationStatus: (_call: unknown, callback: (error: null, answer: object) => void) =>
            callback(null, {}),
        },
      },
    ]);
    closing.push(() => server.close());
    return { asked, close: () => server.close() };
  }

  it("are found by the name that they give, not by that of their socket, in subdirectories, too", async () => {
    mkdirSync(join(directory, "vendor"));
    await register("a-reg.sock", "one.example.com", "/plugins/one/csi.sock");
    await register("vendor/b-reg.sock", "two.example.com", "unix:///plugins/two/csi.sock");
    expect(await drivers.socketOf("one.example.com")).toBe("/plugins/one/csi.sock");
    expect(await drivers.socketOf("two.example.com")).toBe("/plugins/two/csi.sock");
    expect(await drivers.socketOf("three.example.com")).toBeUndefined();
  });

  it("are none where kubelet has no such directory", async () => {
    expect(await createRegisteredDrivers(join(directory, "none")).socketOf("one.example.com")).toBeUndefined();
  });

  it("are not hidden by what else is there: other plugins, files, sockets that a killed driver left", async () => {
    await register("gpu-reg.sock", "one.example.com", "/plugins/gpu.sock", "DevicePlugin");
    writeFileSync(join(directory, "notes.txt"), "");
    const left = await register("b-reg.sock", "left.example.com", "/plugins/left/csi.sock");
    renameSync(join(directory, "b-reg.sock"), join(directory, "c-reg.sock"));
    await left.close();
    await register("z-reg.sock", "one.example.com", "/plugins/one/csi.sock");
    expect(await drivers.socketOf("one.example.com")).toBe("/plugins/one/csi.sock");
    expect(await drivers.socketOf("left.example.com")).toBeUndefined();
  });

  it("are asked once, and again when they have come back", async () => {
    const first = await register("a-reg.sock", "one.example.com", "/plugins/old.sock");
    expect(await drivers.socketOf("one.example.com")).toBe("/plugins/old.sock");
    expect(await drivers.socketOf("one.example.com")).toBe("/plugins/old.sock");
    expect(first.asked.times).toBe(1);
    await first.close();
    expect(await drivers.socketOf("one.example.com")).toBeUndefined();
    await register("a-reg.sock", "one.example.com", "/plugins/new.sock");
    expect(await drivers.socketOf("one.example.com")).toBe("/plugins/new.sock");
  });
});
