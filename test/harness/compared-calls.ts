// The calls that lvmd answers otherwise than TopoLVM's does, each as a row of docs/architecture/lvmd.md names it. The rows are read from
// the page; what "here" says is compared with what our lvmd answers. What TopoLVM answers was found by the same calls to its lvmd.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WatchResponse } from "../../src/contracts/gen/topolvm/lvmd.ts";
import { MIB } from "../../src/contracts/quantities/quantity.ts";
import { callsOf, type LvmdClients, refusalOf } from "../vm/lvmd/lvmd-under-test.ts";

const PAGE = fileURLToPath(new URL("../../docs/architecture/lvmd.md", import.meta.url));
const HEADER = /^\| call +\| TopoLVM v\d+\.\d+\.\d+ +\| here +\| why +\|$/;

export interface ComparedRow {
  readonly call: string;
  readonly theirs: string;
  readonly here: string;
  readonly why: string;
}

/** Throws where the page has no such table. */
export function readComparedRows(): ComparedRow[] {
  const lines = readFileSync(PAGE, "utf8").split("\n");
  const header = lines.findIndex((line) => HEADER.test(line));
  if (header < 0) throw new Error(`${PAGE} has no table of calls`);
  const rest = lines.slice(header + 2);
  const rows = rest.slice(
    0,
    rest.findIndex((line) => !line.startsWith("| ")),
  );
  return rows.map((row) => {
    const [, call = "", theirs = "", here = "", why = ""] = row.split("|").map((cell) => cell.trim());
    return { call, theirs: textOf(theirs), here: textOf(here), why };
  });
}

/** A cell's code, without its backticks. */
function textOf(cell: string): string {
  return cell.replaceAll("`", "");
}

export interface ComparedLvmd {
  readonly clients: LvmdClients;
  /** The default class has a group of its own; that of the class "spare" has less than the 10 GiB which it is to spare. */
  readonly group: string;
}

interface ComparedCall {
  readonly on: "thick" | "thin";
  /** A gRPC code, or what was answered. */
  answer(lvmd: ComparedLvmd, calls: ReturnType<typeof callsOf>): Promise<string>;
}

const thick = (answer: ComparedCall["answer"]): ComparedCall => ({ on: "thick", answer });
const thin = (answer: ComparedCall["answer"]): ComparedCall => ({ on: "thin", answer });
const SIZE = 8 * MIB;

/** By the name in the first column. Each makes the volumes that it needs. */
const CALLS: Readonly<Record<string, ComparedCall>> = {
  "CreateLV again, of the same size": thick(async (_lvmd, { create }) => {
    await create("again", SIZE);
    return codeOf(create("again", SIZE));
  }),
  "CreateLV again, of another size": thick(async (_lvmd, { create }) => {
    await create("other", SIZE);
    return codeOf(create("other", 2 * SIZE));
  }),
  "CreateLV of 0 bytes": thick((_lvmd, { create }) => codeOf(create("nothing", 0))),
  "CreateLV of -4096 bytes": thick((_lvmd, { create }) => codeOf(create("negative", -4096))),
  "CreateLV of 2^62 bytes": thick((_lvmd, { create }) => codeOf(create("huge", 2 ** 62))),
  "CreateLV of 8 MiB and 1 byte": thick((_lvmd, { create }) => codeOf(create("odd", SIZE + 1))),
  "CreateLV of the name `-y`": thick((_lvmd, { create }) => codeOf(create("-y", SIZE))),
  "CreateLV in the room that is to be spared": thick((_lvmd, { create }) => codeOf(create("spared", SIZE, "spare"))),
  "ResizeLV to 0 bytes": thick(async (_lvmd, { create, resize }) => {
    await create("kept", SIZE);
    return answerOf(resize("kept", 0));
  }),
  "ResizeLV to -4096 bytes": thick(async (_lvmd, { create, resize }) => {
    await create("small", SIZE);
    return codeOf(resize("small", -4096));
  }),
  "ResizeLV to 8 MiB and 1 byte": thick(async (_lvmd, { create, resize }) => {
    await create("grown", SIZE);
    return codeOf(resize("grown", SIZE + 1));
  }),
  "RemoveLV of a mounted volume": thick(async ({ group }, { create, remove }) => {
    await create("open", SIZE);
    const path = mkdtempSync(join(tmpdir(), "compared-"));
    execFileSync("mkfs.ext4", ["-q", `/dev/${group}/open`]);
    execFileSync("mount", [`/dev/${group}/open`, path]);
    try {
      return await codeOf(remove("open"));
    } finally {
      execFileSync("umount", [path]);
      rmdirSync(path);
    }
  }),
  "RemoveLV of the name `-y`": thick((_lvmd, { remove }) => codeOf(remove("-y"))),
  "GetLVList: tags of a volume without any": thick(async (_lvmd, { create, list }) => {
    await create("untagged", SIZE);
    return JSON.stringify((await list()).find(({ name }) => name === "untagged")?.tags);
  }),
  "Watch: the classes of its items": thick(async ({ clients }) => {
    const { items } = await firstOf(clients);
    return items.map(({ deviceClass }) => deviceClass).join(", ");
  }),
  "CreateLVSnapshot again, of the same source": thin(async (_lvmd, { create, snapshot }) => {
    await create("source", SIZE);
    await snapshot("repeated", "source", "rw", 0, "");
    return codeOf(snapshot("repeated", "source", "rw", 0, ""));
  }),
  "CreateLVSnapshot with the access type `zz`": thin(async (_lvmd, { create, snapshot }) => {
    await create("accessed", SIZE);
    return codeOf(snapshot("strange", "accessed", "zz", 0, ""));
  }),
  "CreateLVSnapshot of -4096 bytes": thin(async (_lvmd, { create, snapshot }) => {
    await create("whole", SIZE);
    return codeOf(snapshot("less", "whole", "rw", -4096, ""));
  }),
};

/** The names of all calls, in order. */
export const COMPARED_CALLS: readonly string[] = Object.keys(CALLS);

/** Those of a device class of this kind. */
export function callsOn(kind: ComparedCall["on"]): readonly string[] {
  return COMPARED_CALLS.filter((name) => CALLS[name]?.on === kind);
}

/** What the lvmd answers to the call of this name. */
export function makeCall(name: string, lvmd: ComparedLvmd): Promise<string> {
  const call = CALLS[name];
  if (call === undefined) throw new Error(`there is no call "${name}"`);
  return call.answer(lvmd, callsOf(lvmd.clients));
}

async function codeOf(answer: Promise<unknown>): Promise<string> {
  return (await refusalOf(answer)).code;
}

async function answerOf(answer: Promise<unknown>): Promise<string> {
  const { code, message } = await refusalOf(answer);
  return code === "OK" ? `OK ${message}` : code;
}

function firstOf({ groups }: LvmdClients): Promise<WatchResponse> {
  return new Promise((resolve, reject) => {
    const stream = groups.watch({});
    stream.once("data", (message: WatchResponse) => {
      resolve(message);
      stream.cancel();
    });
    stream.on("error", reject); // after the first message it changes nothing
  });
}
