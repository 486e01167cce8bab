// The commands that the README names, by the real kubectl. Where there is none, the suite says so, and fails in CI.

import { execFile, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { ApiClient } from "./api-client.ts";
import { type ContractTarget, startContractTarget } from "./contract-target.ts";
import { prepareWidgets, widget } from "./widget.ts";

const run = promisify(execFile);
const COMMAND_LIMIT_MS = 120_000;

function kubectlVersion(): string | undefined {
  try {
    return execFileSync("kubectl", ["version", "--client"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return undefined;
  }
}

const found = kubectlVersion() !== undefined;
if (!found) process.stderr.write("NOT TESTED: kubectl is not installed, so no kubectl command was tried\n");
const describeWithKubectl = found ? describe : describe.skip;

it("kubectl is there where everything must be tested", () => {
  expect(found || process.env["CI"] === undefined).toBe(true);
});

describeWithKubectl("kubectl", () => {
  let target: ContractTarget;
  let directory: string;
  let namespace: string;

  beforeAll(async () => {
    target = await startContractTarget();
    directory = mkdtempSync(join(tmpdir(), "tidemark-kubectl-"));
    ({ namespace } = await prepareWidgets(new ApiClient(target.baseUrl)));
  });

  afterAll(async () => {
    rmSync(directory, { recursive: true, force: true });
    await target.close();
  });

  const globalArguments = () => ["--server", target.baseUrl, "--cache-dir", join(directory, "cache"), "-n", namespace];
  const environment = () => ({ ...process.env, KUBECONFIG: join(directory, "no-config") });

  async function kubectl(...args: string[]): Promise<string> {
    const options = { env: environment(), timeout: COMMAND_LIMIT_MS };
    const { stdout } = await run("kubectl", [...globalArguments(), ...args], options);
    return stdout;
  }

  function file(name: string, object: unknown): string {
    const path = join(directory, name);
    writeFileSync(path, JSON.stringify(object));
    return path;
  }

  it("applies, gets, explains, labels, describes with events, and deletes", async () => {
    const path = file("w.json", widget("shown", { size: 7 }, { namespace }));
    expect(await kubectl("apply", "--server-side", "-f", path)).toContain("shown serverside-applied");
    expect(await kubectl("get", "widgets")).toMatch(/NAME\s+SIZE\s+READY\s+STATE\s+AGE\nshown\s+7\s/);
    expect(await kubectl("get", "widgets", "-o", "wide")).toMatch(/COLOR.*\n.*red/);
    expect(await kubectl("explain", "widget.spec.size")).toMatch(/FIELD: size <integer>/);
    expect(await kubectl("label", "widget", "shown", "a=b")).toContain("labeled");
    expect(await kubectl("annotate", "widget", "shown", "a=b")).toContain("annotated");
    const uid = await kubectl("get", "widget", "shown", "-o", "jsonpath={.metadata.uid}");
    const event = {
      apiVersion: "v1",
      kind: "Event",
      metadata: { name: "grown", namespace },
      involvedObject: { kind: "Widget", namespace, name: "shown", uid },
      reason: "Grown",
      message: "grew to 2Gi",
      type: "Normal",
    };
    await kubectl("apply", "--server-side", "-f", file("event.json", event));
    const description = await kubectl("describe", "widget", "shown");
    expect(description).toContain("Size:   7");
    expect(description).toMatch(/Events:[\s\S]*Normal\s+Grown[\s\S]*grew to 2Gi/);
    expect(await kubectl("delete", "widget", "shown")).toContain("deleted");
    expect(await kubectl("get", "widgets", "-o", "name")).toBe("");
  });

  it("applies on the client's side, built-in and custom, and again after a change", async () => {
    const claim = (storage: string) => ({
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "claim", namespace, labels: { size: storage } },
      spec: { accessModes: ["ReadWriteOnce"], storageClassName: "none", resources: { requests: { storage: "1Gi" } } },
    });
    expect(await kubectl("apply", "-f", file("c.json", claim("small")))).toContain("claim created");
    expect(await kubectl("apply", "-f", file("c.json", claim("large")))).toContain("claim configured");
    expect(await kubectl("apply", "-f", file("c.json", claim("large")))).toContain("claim unchanged");
    expect(await kubectl("apply", "-f", file("w.json", widget("client-side", {}, { namespace })))).toContain("created");
    expect(await kubectl("apply", "-f", file("w.json", widget("client-side", { size: 2 }, { namespace })))).toContain(
      "configured",
    );
    expect(await kubectl("describe", "pvc", "claim")).toMatch(/Status:\s+Pending/);
  });

  it("refuses a misspelt field, naming it", async () => {
    const path = file("bad.json", widget("misspelt", { sise: 1 }, { namespace }));
    await expect(kubectl("apply", "--server-side", "-f", path)).rejects.toThrow("sise");
    await expect(kubectl("apply", "-f", path)).rejects.toThrow("sise");
  });

  it("get -w shows each change as a line", async () => {
    await kubectl("apply", "--server-side", "-f", file("w.json", widget("watched", { size: 2 }, { namespace })));
    const watching = spawn("kubectl", [...globalArguments(), "get", "widget", "watched", "-w"], { env: environment() });
    let output = "";
    const line = (pattern: RegExp) =>
      new Promise<void>((resolve) => {
        const look = () => {
          if (pattern.test(output)) resolve();
        };
        watching.stdout.on("data", look);
        look();
      });
    watching.stdout.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
    await line(/watched\s+2/);
    await kubectl("apply", "--server-side", "-f", file("w.json", widget("watched", { size: 3 }, { namespace })));
    await line(/watched\s+3/);
    watching.kill();
    expect(output.match(/NAME/g)).toHaveLength(1);
  });
});
