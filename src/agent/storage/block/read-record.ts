// Reads what the node's disk knows of a formatting. "None" is said only where there is none: mkfs depends on it.
import { readFileSync } from "node:fs";
import type { z } from "zod";
import { StorageError } from "../storage.ts";

/** Undefined when there is none; throws AlreadyFormatted when it cannot be understood. `subject` is what may hold data. */
export function readRecord<Schema extends z.ZodType>(
  path: string,
  schema: Schema,
  subject: string,
): z.infer<Schema> | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (error) {
    throw new StorageError(
      "AlreadyFormatted",
      `the record ${path} cannot be understood, so nothing says that ${subject} holds no data; restore the record`,
      error,
    );
  }
}
