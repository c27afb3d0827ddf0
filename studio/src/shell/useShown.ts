/** Whether a person looks at this tab, or did a moment ago. */

import { useEffect, useState } from "react";

const LINGER_MILLISECONDS = 1_000;

const isVisible = () => document.visibilityState === "visible";

/** Return false once the tab has been hidden for a moment, and while it is opened in the background. */
export function useShown(): boolean {
  const [isShown, setShown] = useState(isVisible);
  useEffect(() => {
    let timer: number | undefined;
    const look = () => {
      window.clearTimeout(timer);
      if (isVisible()) setShown(true);
      else timer = window.setTimeout(() => setShown(false), LINGER_MILLISECONDS);
    };
    document.addEventListener("visibilitychange", look);
    return () => {
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
    };
  }, []);
  return isShown;
}
