// The real csi-sanity (kubernetes-csi/csi-test) against a controller's and a node's socket: run as a program, its JUnit report
// read. It judges nothing; the caller says which specs must have run.
import { spawn } from "node:child_process";
import { accessSync, constants, createWriteStream, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { stringify } from "yaml";
import { builtTools, goProblem } from "../cluster/go-tools.ts";

export interface SanityOptions {
  /** For its parameters and its report. */
  readonly directory: string;
  readonly controllerSocket: string;
  readonly nodeSocket: string;
  readonly kubeletDirectory: string;
  readonly parameters: Readonly<Record<string, string>>;
  /** Secrets of every call by its kind, as csi-sanity's file has them. */
  readonly secrets: Readonly<Record<string, Readonly<Record<string, string>>>>;
  readonly volumeBytes: number;
  readonly expandedBytes: number;
  /** Of csi-sanity itself, beyond those that the other options become. */
  readonly flags?: Readonly<Record<string, string>>;
  /** The beginning of a command line that runs the rest where the sockets and kubelet's directory are; absent: here. */
  readonly enter?: readonly [string, ...string[]];
}

export interface SpecResult {
  readonly name: string;
  readonly status: string;
  readonly message: string;
}

export interface SanityReport {
  readonly specs: readonly SpecResult[];
  /** The program's last words, such as "Ran 59 of 96 Specs in 41.2 seconds". */
  readonly summary: string;
}

const PROGRAM = "csi-sanity";
/** A spec that hangs would hang all. */
const RUN_LIMIT_MS = 900_000;

/** Why it cannot be run here; undefined when it can. */
export function csiSanityProblem(): string | undefined {
  return givenProgram() === undefined ? goProblem() : undefined;
}

export async function runCsiSanity(options: SanityOptions): Promise<SanityReport> {
  const program = givenProgram() ?? join(await builtTools(PROGRAM, (line) => console.info(line)), PROGRAM);
  const at = (name: string): string => join(options.directory, name);
  const write = (name: string, content: object): string => {
    writeFileSync(at(name), stringify(content));
    return at(name);
  };
  const [pods, plugins] = [join(options.kubeletDirectory, "pods"), join(options.kubeletDirectory, "plugins")];
  // On a node its kubelet has made them.
  if (options.enter === undefined) for (const path of [pods, plugins]) mkdirSync(path, { recursive: true });
  const flags = {
    "csi.endpoint": `unix://${options.nodeSocket}`,
    "csi.controllerendpoint": `unix://${options.controllerSocket}`,
    "csi.mountdir": join(pods, "sanity"),
    "csi.stagingdir": join(plugins, "sanity"),
    "csi.testvolumesize": options.volumeBytes,
    "csi.testvolumeexpandsize": options.expandedBytes,
    "csi.testvolumeparameters": write("csi-sanity-parameters.yaml", options.parameters),
    "csi.secrets": write("csi-sanity-secrets.yaml", options.secrets),
    "ginkgo.junit-report": at("csi-sanity.xml"),
    "ginkgo.no-color": "true",
    "ginkgo.seed": "1",
    ...options.flags,
  };
  const output = at("csi-sanity.log");
  const [command, ...enter] = [...(options.enter ?? []), program];
  await run(
    command ?? program,
    [...enter, ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`)],
    output,
  );
  return {
    specs: specsIn(readFileSync(at("csi-sanity.xml"), "utf8")),
    summary: summaryIn(readFileSync(output, "utf8")),
  };
}

/** TIDEMARK_CSI_SANITY or in PATH. */
function givenProgram(): string | undefined {
  const inPath = (process.env["PATH"] ?? "").split(delimiter).map((directory) => join(directory, PROGRAM));
  return [process.env["TIDEMARK_CSI_SANITY"] ?? "", ...inPath].find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Its exit code only repeats what the report says. */
function run(program: string, args: readonly string[], outputPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], timeout: RUN_LIMIT_MS });
    const output = createWriteStream(outputPath);
    child.stdout.pipe(output, { end: false });
    child.stderr.pipe(output, { end: false });
    child.once("error", reject);
    child.once("close", () => output.end(resolve));
  });
}

function summaryIn(output: string): string {
  return /^Ran \d+ of \d+ Specs.*$/m.exec(output)?.[0] ?? `no summary; its output ends: ${output.slice(-2000)}`;
}

/** Ginkgo writes each spec as a testcase with name and status, and what failed inside of it. */
function specsIn(report: string): SpecResult[] {
  return [
    ...report.matchAll(/<testcase name="\[It\] ([^"]*)"[^>]* status="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs),
  ].map(([, name = "", status = "", body = ""]) => ({
    name: unescapeXml(name),
    status,
    message: unescapeXml(/<(?:failure|error|skipped) message="([^"]*)"/.exec(body)?.[1] ?? ""),
  }));
}

const ENTITIES: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  "#34": '"',
  "#39": "'",
  "#xA": "\n",
};

function unescapeXml(text: string): string {
  return text.replaceAll(/&([#\w]+);/g, (entity, name: string) => ENTITIES[name] ?? entity);
}
