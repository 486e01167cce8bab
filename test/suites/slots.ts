// Jobs in a number of slots: each slot takes the next job when it has finished one. The order is the caller's.

/**
 * Resolves when all have ended. A job that rejects keeps no other from being run; what it rejected with comes at the end. None is begun once
 * `isEnding`.
 */
export async function runInSlots(
  jobs: readonly ((slot: number) => Promise<void>)[],
  slots: number,
  isEnding: () => boolean = () => false,
): Promise<void> {
  const waiting = [...jobs];
  const failures: unknown[] = [];
  const work = async (slot: number): Promise<void> => {
    for (let job = waiting.shift(); job !== undefined && !isEnding(); job = waiting.shift())
      await job(slot).catch((error: unknown) => failures.push(error));
  };
  await Promise.all(Array.from({ length: slots }, (_, slot) => work(slot)));
  if (failures.length > 0)
    throw new AggregateError(
      failures,
      `${failures.length} of ${jobs.length} jobs failed: ${failures.map(String).join("; ")}`,
    );
}
