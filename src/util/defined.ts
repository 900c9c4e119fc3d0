/** Optional fields of an object literal, for types that distinguish "absent" from "undefined". */

/** The fields of `T`; a field that may be undefined becomes optional. */
type Defined<T> = {
  [K in keyof T as undefined extends T[K] ? never : K]: T[K];
} & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>;
};

/** A copy without the fields that are undefined: `{ id, ...defined({ title, model }) }`. */
export function defined<const T extends object>(fields: T): Defined<T> {
  const present: Partial<T> = {};
  for (const key in fields) if (fields[key] !== undefined) present[key] = fields[key];
  // The loop above ensures this; the type checker cannot see it.
  return present as unknown as Defined<T>;
}
