// pagoda_<app>: an application as plain CUDA on streams, nothing of Cupola. PAGODA_HEADER and
// PAGODA_APP say which.
#include PAGODA_HEADER
#include "streams_form.cuh"

int main(int argc, char** argv) {
  using App = pagoda::PAGODA_APP;
  const pagoda::Options options = pagoda::ReadOptions(argc, argv);
  const auto copies = options.config.copies ? pagoda::Copies::kCalls : pagoda::Copies::kNone;
  const bool good = pagoda::ForEachConfig<App>(options, [&](pagoda::Bed& bed) {
    std::vector<pagoda::NamedForm> forms;
    forms.push_back(
        {"streams", copies,
         std::make_unique<pagoda::StreamsForm<App>>(bed, copies, options.host_threads)});
    return pagoda::Measure(App::kName, options, bed, forms, App::FirstWrongTask);
  });
  return good ? 0 : 1;
}
