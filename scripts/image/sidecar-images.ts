// Images of upstream's programs for a cluster without a registry (CSI sidecars, and the scheduler of the component placement): each is
// one static program, built from its Go module. Names and tags are those of an overlay, so that what is packed is what is installed.
import { mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { writeOciArchive } from "./oci-archive.ts";
import { sharedLibrariesOf } from "./shared-libraries.ts";

const OVERLAY = fileURLToPath(new URL("../../kustomize/overlays/e2e", import.meta.url));

/** Packs those that the overlay itself tags, from the programs of the same name in `programDirectory`. Returns the archives' paths. */
export async function writeSidecarImages(
  programDirectory: string,
  archiveDirectory: string,
  overlay = OVERLAY,
): Promise<string[]> {
  const paths: string[] = [];
  for (const { name, newTag } of sidecarsOf(overlay))
    paths.push(await writeProgramImage(`${name}:${newTag}`, join(programDirectory, basename(name)), archiveDirectory));
  return paths;
}

/** The static program alone. Returns the archive's path. */
export async function writeProgramImage(image: string, from: string, archiveDirectory: string): Promise<string> {
  const program = basename(from);
  if (sharedLibrariesOf(from).length > 0) throw new Error(`${from} is not static: build it with CGO_ENABLED=0`);
  mkdirSync(archiveDirectory, { recursive: true });
  const path = join(archiveDirectory, `${program}.tar`);
  await writeOciArchive({
    path,
    names: [image],
    entrypoint: [`/${program}`],
    // By its path, as sidecars are started, and by its name, as control plane programs are.
    layers: [
      [
        { kind: "file", path: `/${program}`, from },
        { kind: "symlink", path: `/usr/local/bin/${program}`, target: `/${program}` },
      ],
    ],
  });
  return path;
}

function sidecarsOf(overlay: string): { name: string; newTag: string }[] {
  const text = readFileSync(join(overlay, "kustomization.yaml"), "utf8");
  return (parse(text) as { images: { name: string; newTag: string }[] }).images;
}
