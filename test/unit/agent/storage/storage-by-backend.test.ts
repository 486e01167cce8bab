import { expect, it } from "@jest/globals";
import type { LoopVolume, Mounted, Storage } from "../../../../src/agent/storage/storage.ts";
import { storageByBackend } from "../../../../src/agent/storage/storage-by-backend.ts";

it("a volume's own storage gets everything that an extend and a recovery were called with", async () => {
  const told: string[] = [];
  const signals: unknown[] = [];
  const loop: Partial<Storage<LoopVolume>> = {
    extend: async (_volume, sizeBytes, signal, tell) => {
      signals.push(signal);
      tell?.("a balance was cancelled for it");
      return sizeBytes;
    },
    recover: async (_volume, signal) => {
      signals.push(signal);
      return 1;
    },
  };
  const storage = storageByBackend(loop as Storage<LoopVolume>, { lvm: undefined, span: undefined });
  const volume = { backend: "loop" } as Mounted<LoopVolume>;
  const { signal } = new AbortController();
  await storage.extend(volume, 2, signal, (message) => told.push(message));
  await storage.recover(volume, signal);
  expect(told).toEqual(["a balance was cancelled for it"]);
  expect(signals).toEqual([signal, signal]);
});
