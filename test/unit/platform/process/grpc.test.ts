import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { credentials, status } from "@grpc/grpc-js";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import {
  type GetPluginInfoResponse,
  IdentityClient,
  IdentityService,
} from "../../../../src/contracts/gen/csi/v1/csi.ts";
import { serveOnAddress, serveOnSocket } from "../../../../src/platform/process/grpc.ts";

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

async function nameAt(target: string): Promise<string> {
  const client = new IdentityClient(target, credentials.createInsecure());
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
    expect(await nameAt(`unix://${path}`)).toBe("first");
    await server.close();
    expect(existsSync(path)).toBe(false);
  });

  it("does not take the socket of its successor along when it ends", async () => {
    const path = join(directory, "csi.sock");
    const first = await serveOnSocket(path, [identity("first")]);
    const second = await serveOnSocket(path, [identity("second")]);
    await first.close();
    expect(await nameAt(`unix://${path}`)).toBe("second");
    await second.close();
  });
});

describe("a gRPC server on an address", () => {
  it("is reached at the port that it was given, until it is closed", async () => {
    const server = await serveOnAddress({ host: "127.0.0.1", port: 0 }, [identity("first")]);
    expect(server.port).toBeGreaterThan(0);
    expect(await nameAt(`127.0.0.1:${server.port}`)).toBe("first");
    await server.close();
    await expect(nameAt(`127.0.0.1:${server.port}`)).rejects.toMatchObject({ code: status.UNAVAILABLE });
  });
});
