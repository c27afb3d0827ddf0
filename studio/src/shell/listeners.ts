/** Components that show state from outside of React, and are notified of its changes. */

export class Listeners {
  readonly #all = new Set<() => void>();

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#all.add(listener);
    return () => this.#all.delete(listener);
  };

  tell(): void {
    for (const each of this.#all) each();
  }
}
