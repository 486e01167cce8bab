// Images of upstream's programs for a cluster without a registry (CSI sidecars, and the scheduler of the component placement): each is
// one static program, built from its Go module. Names and tags are those of an overlay, so that what is packed is what is installed.
import { mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { type Image, writeOciArchive } from "./oci-archive.ts";
import { sharedLibrariesOf } from "./shared-libraries.ts";

const OVERLAY = fileURLToPath(new URL("../../kustomize/overlays/e2e", import.meta.url));

/** Packs those that the overlay itself tags, from the programs of the same name in `programDirectory`. Returns the archives' paths. */
export async function writeSidecarImages(programDirectory: string, archiveDirectory: string): Promise<string[]> {
  mkdirSync(archiveDirectory, { recursive: true });
  const paths: string[] = [];
  for (const image of sidecarImages(programDirectory)) {
    const path = join(archiveDirectory, `${basename(image.entrypoint[0] ?? "")}.tar`);
    await writeOciArchive({ path, ...image });
    paths.push(path);
  }
  return paths;
}

export function sidecarImages(programDirectory: string, overlay = OVERLAY): Image[] {
  return sidecarsOf(overlay).map(({ name, newTag }) =>
    programImage(`${name}:${newTag}`, join(programDirectory, basename(name))),
  );
}

/** The static program alone. */
export function programImage(name: string, from: string): Image {
  const program = basename(from);
  if (sharedLibrariesOf(from).length > 0) throw new Error(`${from} is not static: build it with CGO_ENABLED=0`);
  return {
    names: [name],
    entrypoint: [`/${program}`],
    // By its path, as sidecars are started, and by its name, as control plane programs are.
    layers: [
      [
        { kind: "file", path: `/${program}`, from },
        { kind: "symlink", path: `/usr/local/bin/${program}`, target: `/${program}` },
      ],
    ],
  };
}

function sidecarsOf(overlay: string): { name: string; newTag: string }[] {
  const text = readFileSync(join(overlay, "kustomization.yaml"), "utf8");
  return (parse(text) as { images: { name: string; newTag: string }[] }).images;
}
