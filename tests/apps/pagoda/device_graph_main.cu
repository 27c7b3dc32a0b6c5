// pagoda_device_graph_<app>: an application as graphs that the device launches. A program of its
// own, since it is built as relocatable device code with CUDA's device runtime.
#include PAGODA_HEADER
#include "device_graph_form.cuh"

int main(int argc, char** argv) {
  using App = pagoda::PAGODA_APP;
  const pagoda::Options options = pagoda::ReadOptions(argc, argv);
  const auto copies = options.config.copies ? pagoda::Copies::kCalls : pagoda::Copies::kNone;
  const bool good = pagoda::ForEachConfig<App>(options, [&](pagoda::Bed& bed) {
    std::vector<pagoda::NamedForm> forms;
    forms.push_back({"graph", copies, std::make_unique<pagoda::GraphForm<App>>(bed, copies)});
    auto form = std::make_unique<pagoda::DeviceGraphForm<App>>(bed, copies);
    const std::string why = form->Make();
    if (why.empty()) {
      forms.push_back({"device-graph", copies, std::move(form)});
    } else {
      pagoda::PrintUnable(App::kName, "device-graph", bed.config(), why);
    }
    return pagoda::Measure(App::kName, options, bed, forms, App::FirstWrongTask);
  });
  return good ? 0 : 1;
}
