import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { type GetPluginInfoResponse, IdentityClient, IdentityService } from "../../../src/gen/csi/v1/csi.ts";
import { serveOnSocket } from "../../../src/process/grpc.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-grpc-"));
});
afterEach(() => rmSync(directory, { recursive: true }));

type Answer = (error: null, response: GetPluginInfoResponse) => void;

const identity = (name: string) => ({
  definition: IdentityService,
  implementation: {
    getPluginInfo: (_call: unknown, answer: Answer) => answer(null, { name, vendorVersion: "1", manifest: {} }),
    getPluginCapabilities: () => {},
    probe: () => {},
  },
});

async function nameAt(socketPath: string): Promise<string> {
  const client = new IdentityClient(`unix://${socketPath}`, credentials.createInsecure());
  try {
    return await new Promise((resolve, reject) => {
      client.getPluginInfo({}, (error, response) => (error === null ? resolve(response.name) : reject(error)));
    });
  } finally {
    client.close();
  }
}

describe("a gRPC server on a unix socket", () => {
  it("is closed to other users, and leaves nothing behind", async () => {
    const path = join(directory, "csi.sock");
    const server = await serveOnSocket(path, [identity("first")]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await nameAt(path)).toBe("first");
    await server.close();
    expect(existsSync(path)).toBe(false);
  });

  it("does not take the socket of its successor along when it ends", async () => {
    const path = join(directory, "csi.sock");
    const first = await serveOnSocket(path, [identity("first")]);
    const second = await serveOnSocket(path, [identity("second")]);
    await first.close();
    expect(await nameAt(path)).toBe("second");
    await second.close();
  });
});
