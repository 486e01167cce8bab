import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import { type Credentials, makeCredentials, writeCredentials } from "../../../../demo/stand-ins/credentials.ts";

const SERVER = "https://127.0.0.1:8001";
let directory: string;
let credentials: Credentials;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "tidemark-credentials-"));
  chmodSync(directory, 0o755);
  credentials = await makeCredentials(Date.now());
});
afterEach(() => rmSync(directory, { recursive: true }));

describe("the directory of what opens the embedded control plane", () => {
  it.each([
    ["the user's own kubeconfig, as in ~/.kube", "config"],
    ["anything else, as /tmp", "work"],
  ])("is refused, and stays as it is, where it has %s", (_what, name) => {
    writeFileSync(join(directory, name), "the user's");
    expect(() => writeCredentials(directory, SERVER, credentials)).toThrow(`${directory} has ${name}`);
    expect(readFileSync(join(directory, name), "utf8")).toBe("the user's");
    expect(statSync(directory).mode & 0o777).toBe(0o755);
  });

  it("is taken where it is empty, or of an earlier start, also of one that ended within it", async () => {
    writeCredentials(directory, SERVER, credentials);
    rmSync(join(directory, "config"));
    writeCredentials(directory, SERVER, credentials);
    const later = await makeCredentials(Date.now());
    writeCredentials(directory, SERVER, later);
    expect(readFileSync(join(directory, "config"), "utf8")).toContain(later.token);
  });
});
