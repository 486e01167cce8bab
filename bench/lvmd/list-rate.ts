// How many GetLVList calls lvmd answers in a second, with so many in flight all the time.
import { credentials } from "@grpc/grpc-js";
import { VGServiceClient } from "../../src/contracts/gen/topolvm/lvmd.ts";

const IN_FLIGHT = 50;
const MEASURED_MS = 4000;
/** Both ends have been compiled by then. */
const WARM_UP_MS = 1000;

/** Throws when one is refused, or does not tell as many volumes. */
export async function listsPerSecond(socket: string, volumes: number): Promise<number> {
  const client = new VGServiceClient(`unix://${socket}`, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
  });
  const startMs = performance.now();
  let answered = 0;
  const call = (): Promise<void> =>
    new Promise((resolve, reject) => {
      client.getLvList({ deviceClass: "" }, (error, response) => {
        if (error !== null) return reject(error);
        if (response.volumes.length !== volumes)
          return reject(new Error(`lvmd tells ${response.volumes.length} volumes, not ${volumes}`));
        const sinceMs = performance.now() - startMs - WARM_UP_MS;
        if (sinceMs > 0 && sinceMs <= MEASURED_MS) answered += 1;
        resolve();
      });
    });
  const caller = async (): Promise<void> => {
    while (performance.now() - startMs < WARM_UP_MS + MEASURED_MS) await call();
  };
  try {
    await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
  } finally {
    client.close();
  }
  return (answered * 1000) / MEASURED_MS;
}
