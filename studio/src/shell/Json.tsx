/** JSON as people read it. */

export function Json({ value }: { value: unknown }) {
  // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls can be reached by keyboard
  return <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>;
}
