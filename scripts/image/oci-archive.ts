// An image as one OCI archive, made of files of this machine without Docker or a registry: what `ctr images import`, podman and
// kind load. The same input makes the same bytes, so an image's digest says what is in it.
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Layer, tarEntriesOf } from "./layer.ts";
import { type TarContent, type TarEntry, tarStream } from "./tar.ts";

const DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };
const MEDIA = "application/vnd.oci.image";

export interface Image {
  /** Full references, such as "registry.example/pause:1". */
  readonly names: readonly string[];
  readonly entrypoint: readonly string[];
  /** "NAME=value"; PATH is there unless it is given. */
  readonly env?: readonly string[];
  readonly workingDirectory?: string;
  readonly layers: readonly Layer[];
}

export interface ImageArchive extends Image {
  /** Where the archive goes; it appears there whole or not at all. */
  readonly path: string;
}

interface Blob {
  readonly digest: string;
  readonly sizeBytes: number;
  readonly content: TarContent;
}

/** The image's digest, "sha256:...". Layers go through files next to `path`, so that none has to fit into memory. */
export async function writeOciArchive(image: ImageArchive): Promise<string> {
  const workDirectory = await mkdtemp(join(dirname(image.path), `.${basename(image.path)}-`));
  try {
    const layers: Blob[] = [];
    for (const [index, layer] of image.layers.entries())
      layers.push(await layerBlob(layer, join(workDirectory, `layer-${index}`)));
    const whole = join(workDirectory, "archive");
    const { digest, entries } = archiveEntries(image, layers);
    await pipeline(Readable.from(tarStream(entries)), createWriteStream(whole));
    await rename(whole, image.path);
    return digest;
  } finally {
    await rm(workDirectory, { recursive: true, force: true });
  }
}

async function layerBlob(layer: Layer, path: string): Promise<Blob> {
  const hash = createHash("sha256");
  let sizeBytes = 0;
  const hashed = async function* (chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      hash.update(chunk);
      sizeBytes += chunk.length;
      yield chunk;
    }
  };
  await pipeline(Readable.from(hashed(tarStream(tarEntriesOf(layer)))), createWriteStream(path));
  return { digest: hash.digest("hex"), sizeBytes, content: { from: path } };
}

/** The layout of image-spec: the index names the manifest, which names its configuration and its layers, all by digest. */
function archiveEntries(image: Image, layers: readonly Blob[]): { digest: string; entries: TarEntry[] } {
  const platform = { architecture: ARCHITECTURES[process.arch] ?? process.arch, os: "linux" };
  const config = jsonBlob({
    ...platform,
    config: {
      Entrypoint: image.entrypoint,
      Env: environmentOf(image),
      WorkingDir: image.workingDirectory ?? "/",
    },
    rootfs: { type: "layers", diff_ids: layers.map(({ digest }) => `sha256:${digest}`) },
  });
  const manifest = jsonBlob({
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config: descriptor(`${MEDIA}.config.v1+json`, config),
    layers: layers.map((layer) => descriptor(`${MEDIA}.layer.v1.tar`, layer)),
  });
  const index = {
    schemaVersion: 2,
    manifests: image.names.map((name) => ({
      ...descriptor(`${MEDIA}.manifest.v1+json`, manifest),
      platform,
      annotations: { "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.split(":").at(-1) },
    })),
  };
  const blobs = new Map([...layers, config, manifest].map((blob) => [blob.digest, blob]));
  const entries = [
    fileEntry("oci-layout", jsonBlob({ imageLayoutVersion: "1.0.0" }).content),
    fileEntry("index.json", jsonBlob(index).content),
    ...[...blobs.values()].map((blob) => fileEntry(`blobs/sha256/${blob.digest}`, blob.content)),
  ];
  return { digest: `sha256:${manifest.digest}`, entries };
}

function environmentOf({ env = [] }: Image): readonly string[] {
  return env.some((variable) => variable.startsWith("PATH=")) ? env : [DEFAULT_PATH, ...env];
}

function jsonBlob(value: object): Blob & { content: { bytes: Buffer } } {
  const bytes = Buffer.from(JSON.stringify(value));
  return { digest: createHash("sha256").update(bytes).digest("hex"), sizeBytes: bytes.length, content: { bytes } };
}

function descriptor(mediaType: string, { digest, sizeBytes }: Blob): object {
  return { mediaType, digest: `sha256:${digest}`, size: sizeBytes };
}

function fileEntry(path: string, content: TarContent): TarEntry {
  return { type: "file", path, mode: 0o644, content };
}
