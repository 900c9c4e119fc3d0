/** Anything that must be closed, so that it keeps no file, timer or process. */
interface Closable {
  close(): Promise<void>;
}

/** Closes all of them, in order, even after one has failed; then throws the first error. */
export async function closeAll(all: readonly Closable[]): Promise<void> {
  const errors: unknown[] = [];
  for (const one of all) await one.close().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}
