// What agents of a fleet would export, on one page; a process of its own, so that the benchmark's time is the engine's. Prints its port.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { claimOf, figuresOf } from "./fleet.ts";

const FIGURES = ["capacity_bytes", "available_bytes", "inodes", "inodes_used"] as const;

/** As Prometheus sees an agent's page, with the labels that scraping adds. */
function pageOf(volumes: number): Buffer {
  const parts: string[] = [];
  for (const figure of FIGURES) {
    parts.push(`# TYPE tidemark_filesystem_${figure} gauge\n`);
    for (let index = 0; index < volumes; index += 1) {
      const { namespace, name } = claimOf(index);
      const labels = `namespace="${namespace}",persistentvolumeclaim="${name}",node="node-${index % 1000}",backend="loop",fstype="btrfs"`;
      parts.push(`tidemark_filesystem_${figure}{${labels}} ${figuresOf(index)[figure]}\n`);
    }
  }
  return Buffer.from(parts.join(""));
}

const page = pageOf(Number(process.argv[2]));
const server = createServer((_request, response) => response.end(page));
server.listen(0, "127.0.0.1", () => process.stdout.write(`${(server.address() as AddressInfo).port}\n`));
