/** Those who show something that is kept outside of React, and are told when it changes. */

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
