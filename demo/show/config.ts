// What the demo and its writer get from outside: flags only. The only file of the demo that reads them.

import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { readFlags } from "../../src/platform/process/flags.ts";

export interface DemoConfig {
  /** Prints the summary alone on stdout, as one JSON object. */
  readonly json: boolean;
  /** Stays up after the run until Ctrl-C. */
  readonly keep: boolean;
  /** Where the picture goes. */
  readonly picturePath: string;
  /** Where run directories are made; it needs room for some GiB. */
  readonly directory: string;
  /** Uses the simulated disk even where a real one could be had. */
  readonly simulated: boolean;
  /** Port of the embedded control plane; 0 picks a free one. */
  readonly port: number;
  readonly bytesPerSecond: number;
  /** The policy that the managed filesystem breathes by. */
  readonly policyFile: string;
}

export interface WriterConfig {
  readonly directory: string;
  readonly bytesPerSecond: number;
  readonly fileBytes: number;
  readonly seed: number;
  /** Ends at the first ENOSPC instead of going on. */
  readonly stopWhenFull: boolean;
  /** On the simulated disk: the file that holds the capacity. */
  readonly capacityFile: string | undefined;
}

const DIRECTORY_LIMIT_BYTES = 70;

/** Throws with a sentence for the user on anything it cannot read. */
export function readDemoConfig(args: readonly string[]): DemoConfig {
  const values = readFlags(
    {
      json: { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      yes: { type: "boolean", default: false }, // read by scripts/setup.sh; accepted here, since both get the same ARGS
      picture: { type: "string", default: ".tidemark/demo.svg" },
      directory: { type: "string", default: `/var/tmp/tidemark-demo-${process.getuid?.() ?? 0}` },
      simulated: { type: "boolean", default: false },
      port: { type: "string", default: "0" },
      "rate-mb": { type: "string", default: "60" },
      policy: { type: "string" },
    },
    args,
  );
  return {
    json: values.json,
    keep: values.keep,
    picturePath: values.picture,
    directory: directoryForSockets(values.directory),
    simulated: values.simulated,
    port: wholeNumber("--port", values.port, 0, 65_535),
    bytesPerSecond: wholeNumber("--rate-mb", values["rate-mb"], 1, 10_000) * 1_000_000,
    policyFile: values.policy ?? defaultPolicyFile(),
  };
}

/** Seen from the bundle (dist/demo/demo.mjs), and from this file: both are two directories deep. */
function defaultPolicyFile(): string {
  const here = dirname(fileURLToPath(import.meta.url));
  const path = join(here, "../../policies/demo-breathing.yaml");
  if (!existsSync(path)) throw new Error(`the demo's policy is not ${path}; give --policy`);
  return path;
}

/** Unix sockets are made in the run directory, and their paths are limited to 107 bytes. */
function directoryForSockets(path: string): string {
  const absolute = resolve(path);
  if (Buffer.byteLength(absolute) > DIRECTORY_LIMIT_BYTES)
    throw new Error(
      `--directory ${absolute} is longer than ${DIRECTORY_LIMIT_BYTES} bytes: sockets in it could not be named`,
    );
  return absolute;
}

/** Throws with a sentence for the user on anything it cannot read. */
export function readWriterConfig(args: readonly string[]): WriterConfig {
  const { values } = parseArgs({
    args: [...args],
    options: {
      directory: { type: "string" },
      "rate-bytes": { type: "string", default: "60000000" },
      "file-mib": { type: "string", default: "8" },
      seed: { type: "string", default: "1" },
      "stop-when-full": { type: "boolean", default: false },
      "capacity-file": { type: "string" },
    },
    strict: true,
  });
  if (values.directory === undefined) throw new Error("--directory is required: where the writer writes");
  return {
    directory: values.directory,
    bytesPerSecond: wholeNumber("--rate-bytes", values["rate-bytes"], 0, 10_000_000_000),
    fileBytes: wholeNumber("--file-mib", values["file-mib"], 1, 1024) * MIB,
    seed: wholeNumber("--seed", values.seed, 0, 0xffff_ffff),
    stopWhenFull: values["stop-when-full"],
    capacityFile: values["capacity-file"],
  };
}

function wholeNumber(flag: string, text: string, least: number, most: number): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most)
    throw new Error(`${flag} ${text} is not a whole number from ${least} to ${most}`);
  return value;
}
