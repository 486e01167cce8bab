// A program that writes one record through the file port: PATH DURABILITY TEXT.
import { directEffects } from "../../../src/platform/process/effects/effects.ts";
import { createFilePort, type Durability } from "../../../src/platform/process/effects/file-port.ts";

const [path = "", durability = "", text = ""] = process.argv.slice(2);
createFilePort(directEffects)
  .writeWhole("record/write", path, text, 0o600, durability === "" ? undefined : (durability as Durability))
  .catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  });
