/** Shows a part of a page, or an error in its place, so that a malformed row does not hide the others. */

import { Component, type ReactNode } from "react";

interface GuardedProps {
  /** The part's name, such as a run's id. */
  name: string;
  children: ReactNode;
}

export class Guarded extends Component<GuardedProps, { trouble?: string }> {
  override state: { trouble?: string } = {};

  static getDerivedStateFromError(error: unknown): { trouble: string } {
    return { trouble: error instanceof Error ? error.message : String(error) };
  }

  override render() {
    const { trouble } = this.state;
    if (trouble === undefined) return this.props.children;
    return (
      <span className="trouble">
        {this.props.name} cannot be shown: {trouble}
      </span>
    );
  }
}
