// Images of upstream's programs for a cluster without a registry (CSI sidecars, and the scheduler of the component placement): each is
// one static program, built from its Go module. Names and tags are those of an overlay, so that what is packed is what is installed.
import { mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { writeOciArchive } from "./oci-archive.ts";
import { sharedLibrariesOf } from "./shared-libraries.ts";

const SIDECARS_OVERLAY = overlay("e2e");

/** Packs those in the overlay from the programs of the same name in `programDirectory`. Returns the archives' paths. */
export async function writeSidecarImages(
  programDirectory: string,
  archiveDirectory: string,
  kustomization = SIDECARS_OVERLAY,
): Promise<string[]> {
  mkdirSync(archiveDirectory, { recursive: true });
  const paths: string[] = [];
  for (const { name, newTag } of imagesOf(kustomization)) {
    const program = basename(name);
    const from = join(programDirectory, program);
    if (sharedLibrariesOf(from).length > 0) throw new Error(`${from} is not static: build it with CGO_ENABLED=0`);
    const path = join(archiveDirectory, `${program}.tar`);
    await writeOciArchive({
      path,
      names: [`${name}:${newTag}`],
      entrypoint: [`/${program}`],
      // By its path, as sidecars are started, and by its name, as control plane programs are.
      layers: [
        [
          { kind: "file", path: `/${program}`, from },
          { kind: "symlink", path: `/usr/local/bin/${program}`, target: `/${program}` },
        ],
      ],
    });
    paths.push(path);
  }
  return paths;
}

function imagesOf(kustomization: string): { name: string; newTag: string }[] {
  return (parse(readFileSync(kustomization, "utf8")) as { images: { name: string; newTag: string }[] }).images;
}

function overlay(name: string): string {
  return fileURLToPath(new URL(`../../kustomize/overlays/${name}/kustomization.yaml`, import.meta.url));
}
