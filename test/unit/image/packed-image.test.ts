import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { Image } from "../../../scripts/image/oci-archive.ts";
import { packedImage } from "../../../scripts/image/packed-image.ts";

const DAY_S = 86_400;

describe("an image that is packed once", () => {
  let directory: string;
  let cache: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-packed-"));
    cache = join(directory, "cache");
    writeProgram("a", "#!/bin/sh\n");
  });

  afterEach(() => rmSync(directory, { recursive: true }));

  const writeProgram = (name: string, text: string, mode = 0o755): void =>
    writeFileSync(join(directory, name), text, { mode });

  const image = (from = "a", settings: Partial<Image> = {}): Image => ({
    names: ["registry.example/program:1"],
    entrypoint: ["/program"],
    layers: [[{ kind: "file", path: "/program", from: join(directory, from) }]],
    ...settings,
  });

  const archives = (): string[] => readdirSync(cache).sort();

  /** As if nobody had used it since. */
  const ageDays = (path: string, days: number): void => {
    const then = Date.now() / 1000 - days * DAY_S;
    utimesSync(dirname(path), then, then);
  };

  it("is the same archive for the same content, whatever the file is called and however old it is", async () => {
    writeProgram("b", "#!/bin/sh\n");
    const first = await packedImage(image("a"), cache);
    const bytes = readFileSync(first.path);
    expect(await packedImage(image("b"), cache)).toEqual(first);
    expect(archives()).toHaveLength(1);
    expect(readFileSync(first.path).equals(bytes)).toBe(true);
    expect(first.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it.each<[string, () => Image]>([
    [
      "another byte of a program, of the same length",
      () => {
        writeProgram("a", "#!/bin/ss\n");
        return image();
      },
    ],
    [
      "another mode",
      () => {
        writeProgram("c", "#!/bin/sh\n", 0o644);
        return image("c");
      },
    ],
    ["another name", () => image("a", { names: ["registry.example/program:2"] })],
    ["another entrypoint", () => image("a", { entrypoint: ["/program", "--flag"] })],
    [
      "another place in the image",
      () => image("a", { layers: [[{ kind: "file", path: "/other", from: join(directory, "a") }]] }),
    ],
  ])("is packed anew for %s", async (_what, changed) => {
    const first = await packedImage(image(), cache);
    const second = await packedImage(changed(), cache);
    expect(second.path).not.toBe(first.path);
  });

  it("is whole when several pack it at once, and nothing else is left", async () => {
    const packed = await Promise.all(Array.from({ length: 5 }, () => packedImage(image(), cache)));
    expect(new Set(packed.map(({ path, digest }) => `${path} ${digest}`)).size).toBe(1);
    expect(existsSync(packed[0]?.path ?? "")).toBe(true);
    expect(archives()).toHaveLength(1);
  });

  it("is removed when it is old and four newer ones of its name are there, and so is what a killed packer has left", async () => {
    const paths: string[] = [];
    for (const version of [1, 2, 3, 4, 5]) {
      writeProgram("a", `#!/bin/sh\necho ${version}\n`);
      const { path } = await packedImage(image(), cache);
      ageDays(path, 10 - version);
      paths.push(path);
    }
    mkdirSync(join(cache, ".packing-dead"));
    ageDays(join(cache, ".packing-dead/image.tar"), 1);
    mkdirSync(join(cache, ".packing-alive"));
    await packedImage(image(), cache);
    const other = await packedImage(image("a", { names: ["registry.example/program-of-another-name:1"] }), cache);
    expect(paths.filter((path) => existsSync(path))).toEqual(paths.slice(1));
    expect(existsSync(other.path)).toBe(true);
    expect(archives().filter((name) => name.startsWith("."))).toEqual([".packing-alive"]);
  });
});
