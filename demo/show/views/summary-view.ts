// The end of a run in a few sentences for people. Pure; programs get the summary itself by --json.
import { formatBytes } from "../../../src/contracts/quantities/quantity.ts";
import { formatPercent } from "../../../src/contracts/quantities/ratio.ts";
import type { DemoSummary } from "./summary.ts";

/** Lines of "what: how much". */
export function summaryLines(summary: DemoSummary, picture: string): string[] {
  const rows: [string, string][] = [
    ["storage", `${summary.storage}, ${summary.fsType}`],
    [
      "changes",
      `${summary.extends} extends, ${summary.shrinks} shrinks by a quarter or more, ${summary.cancelledShrinks} cancelled`,
    ],
    ["80% used → larger", crossingText(summary)],
    ["files", filesText(summary)],
    [
      "writer",
      `${formatBytes(summary.writtenBytes)} written, ${summary.writerErrors} errors, longest write ${summary.maxWriteStallMs} ms`,
    ],
    ["least available", formatBytes(summary.minAvailableBytes)],
    ["average size", averageText(summary)],
    ["on the host", hostText(summary)],
    ["unmanaged 1Gi", fixedText(summary)],
    ["picture", picture],
  ];
  const width = Math.max(...rows.map(([what]) => what.length));
  return rows.map(([what, text]) => `  ${what.padEnd(width)}  ${text}`);
}

function crossingText({ crossingMs, crossingsBetweenSamples }: DemoSummary): string {
  if (crossingMs === null) return "not seen";
  const unseen =
    crossingsBetweenSamples === 0 ? "" : ` (${crossingsBetweenSamples} between two samples, counted from the first)`;
  return `${crossingMs.p50} ms p50, ${crossingMs.max} ms max${unseen}`;
}

function filesText({ filesVerified, bytesVerified, corruptFiles }: DemoSummary): string {
  const corrupt = corruptFiles === 0 ? "none corrupt" : `${corruptFiles} CORRUPT`;
  return `${filesVerified} verified (${formatBytes(bytesVerified)}) after unmount and mount, ${corrupt}`;
}

function averageText({ averageCapacityBytes, nominalBytes }: DemoSummary): string {
  const share = Math.round((averageCapacityBytes / nominalBytes) * 100) / 100;
  return `${formatBytes(averageCapacityBytes)}, ${formatPercent(share)} of the claimed ${formatBytes(nominalBytes)}`;
}

function hostText({ hostBytesMax, hostBytesEnd }: DemoSummary): string {
  return `at most ${formatBytes(hostBytesMax)} allocated, ${formatBytes(hostBytesEnd)} at the end`;
}

function fixedText({ fixedVolumeFullAtMs }: DemoSummary): string {
  return fixedVolumeFullAtMs === null ? "did not fill up" : `disk full at ${(fixedVolumeFullAtMs / 1000).toFixed(1)} s`;
}
