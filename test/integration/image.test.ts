// Tidemark's image, unpacked and used as a root directory: with nothing of this machine in it but what was packed, every process
// and every program that the agent runs must start.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { FIXED_PROGRAMS, USER_ID, writeTidemarkImage } from "../../scripts/image/tidemark-image.ts";
import { PROGRAMS } from "../../src/agent/storage/tools.ts";
import { describeReal } from "../harness/real-parts.ts";

const VERSION_FLAGS: Readonly<Record<string, string>> = {
  e2fsck: "-V",
  "mkfs.ext4": "-V",
  "mkfs.xfs": "-V",
  resize2fs: "-V", // not one of its flags: it says its usage, and its version
  xfs_db: "-V",
  xfs_growfs: "-V",
};

interface Descriptor {
  readonly digest: string;
}

describeReal("the image", ["root", "btrfs", "bundle"], () => {
  const directory = mkdtempSync(join(tmpdir(), "tidemark-image-"));
  const root = join(directory, "root");
  let digest: string;

  const blob = ({ digest: name }: Descriptor): string => join(directory, "archive/blobs", name.replace(":", "/"));
  const read = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8")) as T;
  const pack = (name: string): Promise<string> => writeTidemarkImage(join(directory, name), "tidemark:test", "dist");

  beforeAll(async () => {
    digest = await pack("image.tar");
    for (const name of ["archive", "root"]) mkdirSync(join(directory, name));
    execFileSync("tar", ["-xf", join(directory, "image.tar"), "-C", join(directory, "archive")]);
    for (const layer of manifest().layers) execFileSync("tar", ["-xf", blob(layer), "-C", root]);
  });
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  function manifest(): { layers: Descriptor[]; config: Descriptor } {
    const { manifests } = read<{ manifests: Descriptor[] }>(join(directory, "archive/index.json"));
    return read(blob(manifests[0] as Descriptor));
  }

  /** What a program says on either stream, whatever it ends with; throws when it cannot be started. */
  function runInside(command: readonly string[], user = 0): string {
    const shown = execFileSync(
      "sh",
      ["-c", '"$@" 2>&1; echo "exit $?"', "sh", "chroot", `--userspec=${user}:${user}`, root, ...command],
      { encoding: "utf8" },
    );
    expect(shown).not.toMatch(/exit 12[5-7]\n$/); // chroot could not, or the loader found no library
    return shown;
  }

  it("has the digest that it was packed under, and the same one when it is packed again", async () => {
    const { manifests } = read<{ manifests: (Descriptor & { annotations: Record<string, string> })[] }>(
      join(directory, "archive/index.json"),
    );
    expect(manifests.map(({ digest: named }) => named)).toEqual([digest]);
    expect(manifests[0]?.annotations["io.containerd.image.name"]).toBe("docker.io/library/tidemark:test");
    expect(await pack("again.tar")).toBe(digest);
  });

  it("starts with its entrypoint, also as the user of the Deployments", () => {
    const { config } = read<{ config: { Entrypoint: string[] } }>(blob(manifest().config));
    for (const user of [0, USER_ID]) {
      const said = runInside([...config.Entrypoint, "help"], user);
      for (const command of ["policy-engine", "operator", "agent", "lvmd"]) expect(said).toContain(command);
      expect(said).toMatch(/exit 0\n$/);
    }
  });

  it.each([
    ["policy-engine", "--server"],
    ["operator", "--server"],
    ["agent", "--server"],
    ["lvmd", "--http-host"],
  ])("can load all of the %s", (command, first) => {
    const { config } = read<{ config: { Entrypoint: string[] } }>(blob(manifest().config));
    expect(runInside([...config.Entrypoint, command, "--no-such-flag"])).toContain(`the flags are: ${first}`);
  });

  it.each(PROGRAMS)("has %s with its libraries", (program) => {
    const path = ["/usr/sbin", "/usr/bin"].map((bin) => join(bin, program)).find((one) => existsSync(join(root, one)));
    expect(runInside([path ?? program, VERSION_FLAGS[program] ?? "--version"])).toMatch(/\d+\.\d+/);
  });

  it.each(FIXED_PROGRAMS)("has %s with its libraries", (path) => {
    expect(runInside([path, "--version"])).toMatch(/\d+\.\d+/);
  });

  it.each(["src/agent", "src/lvmd"])(
    "has every program whose path stands in %s, but for the node's own LVM",
    (directory) => {
      const sources = readdirSync(directory, { recursive: true, encoding: "utf8" }).filter((name) =>
        name.endsWith(".ts"),
      );
      const paths = sources.flatMap((name) =>
        [...readFileSync(join(directory, name), "utf8").matchAll(/"(\/(?:usr\/)?s?bin\/[\w.-]+)"/g)].map(
          ([, path]) => path,
        ),
      );
      expect(paths.length).toBeGreaterThan(2);
      expect(paths.filter((path = "") => path !== "/sbin/lvm" && !existsSync(join(root, path)))).toEqual([]);
    },
  );
});
