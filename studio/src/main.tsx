import "./style.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRootRoute, createRoute, createRouter, RouterProvider, redirect } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { InboxPage } from "./inbox/InboxPage";
import { RunPage } from "./runs/RunPage";
import { RunsPage } from "./runs/RunsPage";
import { StartPage } from "./start/StartPage";
import { StartWorkflowPage } from "./start/StartWorkflowPage";
import { Shell } from "./shell/Shell";

const root = createRootRoute({ component: Shell });
const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  beforeLoad: () => {
    throw redirect({ to: "/inbox" });
  },
});
const inbox = createRoute({ getParentRoute: () => root, path: "/inbox", component: InboxPage });
const runs = createRoute({ getParentRoute: () => root, path: "/runs", component: RunsPage });
const run = createRoute({ getParentRoute: () => root, path: "/runs/$id", component: RunPage });
const start = createRoute({ getParentRoute: () => root, path: "/start", component: StartPage });
const startWorkflow = createRoute({
  getParentRoute: () => root,
  path: "/start/$workflow",
  component: StartWorkflowPage,
});
const question = createRoute({ getParentRoute: () => root, path: "/inbox/$id", component: InboxPage });

const router = createRouter({
  routeTree: root.addChildren([home, inbox, question, runs, run, start, startWorkflow]),
  basepath: new URL(document.baseURI).pathname,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

const client = new QueryClient({
  defaultOptions: { queries: { staleTime: 10_000, refetchOnWindowFocus: true } },
});

client.setQueryDefaults(["question"], { structuralSharing: false }); // copies are no exact numbers any more

createRoot(document.getElementById("root") as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
