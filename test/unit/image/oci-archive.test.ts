import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "@jest/globals";
import type { Layer } from "../../../scripts/image/layer.ts";
import { writeOciArchive } from "../../../scripts/image/oci-archive.ts";

interface Descriptor {
  readonly digest: string;
  readonly size: number;
  readonly annotations?: Record<string, string>;
}

describe("an OCI archive", () => {
  let directory: string;

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), "tidemark-image-"));
    mkdirSync(join(directory, "tree/sub"), { recursive: true });
    writeFileSync(join(directory, "tree/program"), "#!/bin/sh\n", { mode: 0o755 });
    writeFileSync(join(directory, "tree/sub/text"), "x".repeat(1000), { mode: 0o600 });
    symlinkSync("sub/text", join(directory, "tree/link"));
  });

  afterEach(() => rmSync(directory, { recursive: true }));

  const pack = (name: string, layer: Layer): Promise<string> =>
    writeOciArchive({
      path: join(directory, name),
      names: ["registry.example/a:1", "registry.example/b:2"],
      entrypoint: ["/app/program"],
      env: ["A=b"],
      layers: [layer],
    });

  const unpack = (name: string): string => {
    const into = join(directory, `${name}.unpacked`);
    mkdirSync(into);
    execFileSync("tar", ["-xf", join(directory, name), "-C", into]);
    return into;
  };

  const blob = (root: string, { digest, size }: Descriptor): Buffer => {
    const bytes = readFileSync(join(root, "blobs", digest.replace(":", "/")));
    expect([`sha256:${createHash("sha256").update(bytes).digest("hex")}`, bytes.length]).toEqual([digest, size]);
    return bytes;
  };

  it("leads from the index by digests and sizes that are right to the configuration and the layer, under each name", async () => {
    const digest = await pack("image.tar", [{ kind: "tree", path: "/app", from: join(directory, "tree") }]);
    const root = unpack("image.tar");
    const { manifests } = JSON.parse(readFileSync(join(root, "index.json"), "utf8")) as { manifests: Descriptor[] };
    expect(manifests.map(({ annotations }) => annotations?.["io.containerd.image.name"])).toEqual([
      "registry.example/a:1",
      "registry.example/b:2",
    ]);
    const [first] = manifests as [Descriptor];
    expect(first.digest).toBe(digest);
    const manifest = JSON.parse(blob(root, first).toString()) as { config: Descriptor; layers: [Descriptor] };
    const config = JSON.parse(blob(root, manifest.config).toString()) as {
      config: { Entrypoint: string[]; Env: string[] };
      rootfs: { diff_ids: string[] };
    };
    blob(root, manifest.layers[0]);
    expect(config.rootfs.diff_ids).toEqual([manifest.layers[0].digest]);
    expect(config.config.Entrypoint).toEqual(["/app/program"]);
    expect(config.config.Env).toEqual([expect.stringMatching(/^PATH=/), "A=b"]);
    expect(readdirSync(join(root, "blobs/sha256"))).toHaveLength(3);
  });

  it("has the same bytes whatever the order and the age of what is packed", async () => {
    const entries: Layer = [
      { kind: "tree", path: "/app", from: join(directory, "tree") },
      { kind: "text", path: "/etc/passwd", text: "root:x:0:0::/:\n" },
      { kind: "directory", path: "/tmp", mode: 0o1777 },
    ];
    await pack("first.tar", entries);
    utimesSync(join(directory, "tree/program"), 1, 1);
    await pack("second.tar", [...entries].reverse());
    expect(readFileSync(join(directory, "second.tar")).equals(readFileSync(join(directory, "first.tar")))).toBe(true);
  });

  it("carries long names, links, modes and contents, all of them root's and of the epoch", async () => {
    const long = `/${"deep/".repeat(30)}${"name".repeat(30)}`;
    await pack("image.tar", [
      { kind: "tree", path: "/app", from: join(directory, "tree") },
      { kind: "text", path: long, text: "found" },
      { kind: "symlink", path: "/long", target: long },
      { kind: "directory", path: "/tmp", mode: 0o1777 },
    ]);
    const root = unpack("image.tar");
    const layer = readdirSync(join(root, "blobs/sha256"))
      .map((name) => join(root, "blobs/sha256", name))
      .find((path) => !readFileSync(path, "utf8").startsWith("{"));
    const listing = execFileSync("tar", ["-tvf", layer ?? "", "--numeric-owner", "--utc"], { encoding: "utf8" });
    const lines = listing
      .trim()
      .split("\n")
      .map((line) => line.split(/\s+/));
    const shown: Record<string, string> = Object.fromEntries(
      lines.map(([mode = "", owner = "", , , , path = ""]) => [path, `${mode} ${owner}`]),
    );
    expect(new Set(lines.map(([, , , date, time]) => `${date} ${time}`))).toEqual(new Set(["1970-01-01 00:00"]));
    expect(shown).toMatchObject({
      "app/program": "-rwxr-xr-x 0/0",
      "app/sub/text": "-rw-r--r-- 0/0",
      "app/link": "lrwxrwxrwx 0/0",
      tmp: "drwxrwxrwt 0/0",
      [long.slice(1)]: "-rw-r--r-- 0/0",
    });
    expect(listing).toContain(`long -> ${long}`);
    const content = execFileSync("tar", ["-xOf", layer ?? "", "app/sub/text", long.slice(1)], { encoding: "utf8" });
    expect(content).toBe(`${"x".repeat(1000)}found`);
  });

  it("is not there at all when something cannot be packed", async () => {
    await expect(pack("image.tar", [{ kind: "file", path: "/a", from: join(directory, "missing") }])).rejects.toThrow(
      "missing",
    );
    expect(readdirSync(directory).filter((name) => name.includes("image.tar"))).toEqual([]);
  });

  it("is not there at all when a file has more bytes than its size says, as one that grows meanwhile", async () => {
    await expect(pack("image.tar", [{ kind: "file", path: "/a", from: "/proc/version" }])).rejects.toThrow(
      "a cannot be packed with 0 bytes",
    );
    expect(readdirSync(directory).filter((name) => name.includes("image.tar"))).toEqual([]);
  });
});
