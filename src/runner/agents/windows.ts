/** How many tokens fit into a conversation with a model. */
export function windowOf(_model: string | undefined): number | undefined {
  return undefined;
}
