/** Shows a part of a page, or that it cannot be shown: a row that holds anything keeps no other from being seen. */

import { Component, type ReactNode } from "react";

interface GuardedProps {
  /** What the part is, such as a run's id. */
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
