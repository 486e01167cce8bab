// A directory in the place of another, whole: who has opened the former one, or looks at the place's inode, never sees a mixture of both.
import { existsSync, renameSync, rmSync } from "node:fs";

const ATTEMPTS_LIMIT = 100;

/**
 * Both are on one filesystem. For a moment there is nothing at `place`: two renames are what Node can do. Another process may replace it at the
 * same time: the last one stays.
 */
export function replaceDirectory(place, directory) {
  const former = `${directory}.former`;
  for (let attempt = 1; ; attempt += 1) {
    if (existsSync(place)) renameIfThere(place, former);
    try {
      renameSync(directory, place);
      break;
    } catch (error) {
      if (!["ENOTEMPTY", "EEXIST"].includes(error.code) || attempt === ATTEMPTS_LIMIT) throw error;
    } finally {
      rmSync(former, { recursive: true, force: true });
    }
  }
}

function renameIfThere(from, to) {
  try {
    renameSync(from, to);
  } catch (error) {
    if (error.code !== "ENOENT") throw error; // another process has taken it away
  }
}
