// Images of upstream's CSI sidecars for a cluster without a registry: each is one static program, built from its Go module. Names
// and tags are those of the e2e overlay, so that what is packed is what is installed.
import { mkdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse } from "yaml";
import { writeOciArchive } from "./oci-archive.ts";
import { sharedLibrariesOf } from "./shared-libraries.ts";

const OVERLAY = fileURLToPath(new URL("../../kustomize/overlays/e2e/kustomization.yaml", import.meta.url));

/** Packs those in the overlay from the programs of the same name in `programDirectory`. Returns the archives' paths. */
export async function writeSidecarImages(programDirectory: string, archiveDirectory: string): Promise<string[]> {
  mkdirSync(archiveDirectory, { recursive: true });
  const paths: string[] = [];
  for (const { name, newTag } of sidecars()) {
    const program = basename(name);
    const from = join(programDirectory, program);
    if (sharedLibrariesOf(from).length > 0) throw new Error(`${from} is not static: build it with CGO_ENABLED=0`);
    const path = join(archiveDirectory, `${program}.tar`);
    await writeOciArchive({
      path,
      names: [`${name}:${newTag}`],
      entrypoint: [`/${program}`],
      layers: [[{ kind: "file", path: `/${program}`, from }]],
    });
    paths.push(path);
  }
  return paths;
}

function sidecars(): { name: string; newTag: string }[] {
  return (parse(readFileSync(OVERLAY, "utf8")) as { images: { name: string; newTag: string }[] }).images;
}
